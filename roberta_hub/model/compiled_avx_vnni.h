// Bytes where four products are summed at once: AVX-VNNI, or AVX-512 VNNI in 256 bits.

struct Int8 {
  static constexpr int64_t EACH = 4, GROUP = 1, VECTOR = 32, ROW_BYTES = 1;
  static constexpr int64_t PARTS = 3, TILE = 4, BLOCK = ALL, MOST = 0, TOGETHER = 1;
  using Register = Whole;
  static Whole weight(const char* at) { return *reinterpret_cast<const Whole*>(at); }
  static Whole row(const Rows& x, int64_t n, int64_t k) {
    int32_t four;  // bytes
    std::memcpy(&four, x.bytes + n * x.stride + 4 * k, 4);
    return _mm256_set1_epi32(four);
  }
  static Register add(Register sum, Whole x, Whole w) { return _mm256_dpbusd_epi32(sum, x, w); }
  static void shorten(const float* x, int64_t width, uint8_t* q, float* step, float* low) {
    bytes_of(x, width, 255, q, step, low);
  }
};
