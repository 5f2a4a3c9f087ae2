// Bytes on AVX2, which has no sums of four products: those of two meet in 16 bits.

// Weights of 8 bits times activations of 7. Sums of 8 products are held in 16 bits, twice as many in
// a register as of 32: weights are scaled so that no such sum is larger (MOST). Two of them, of 16
// inputs, make a sum of 32 bits. Steps of 1/127 of a row's range are too coarse where few inputs are
// far from the others, so each block of inputs has its own.
struct Int8 {
  static constexpr int64_t EACH = 4, GROUP = 4, VECTOR = 128, ROW_BYTES = 1;
  static constexpr int64_t PARTS = 1, TILE = 6, BLOCK = 256, TOGETHER = 8;
  // Of 8 weights of one sign that are rounded later, each by 1/2 at most: 127 (254 + 4) < 32768.
  static constexpr int64_t MOST = 254;
  using Register = Vector;
  using Weights = std::array<Whole, 4>;
  static Weights weights(const char* at) {
    const Whole* part = reinterpret_cast<const Whole*>(at);
    return {part[0], part[1], part[2], part[3]};
  }
  static Whole add(Whole sum, const uint8_t* x, const Weights& w) {
    Whole pairs = times(x, w[0]);
#pragma GCC unroll 4
    for (int i = 1; i < 4; i++) pairs = _mm256_add_epi16(pairs, times(x + 4 * i, w[i]));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Whole times(const uint8_t* x, Whole w) {
    int32_t four;  // bytes
    std::memcpy(&four, x, 4);
    return _mm256_maddubs_epi16(_mm256_set1_epi32(four), w);
  }

  static void shorten(const float* x, int64_t width, uint8_t* q, float* step, float* low) {
    bytes_of(x, width, 127, q, step, low);
  }
};
