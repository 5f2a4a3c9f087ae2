// AVX2 with FMA and F16C: 16 registers of 8 floats. compiled_layer.h is written over these names,
// and over the form of bytes of compiled_avx2_int8.h or compiled_avx_vnni.h.

using Vector = __m256;
using Whole = __m256i;  // integers of 32 bits
using Lanes = int64_t;  // how many floats of a register are there: all, if so many or more

constexpr int64_t WIDE = 8;     // floats of a register
constexpr int64_t QUERIES = 8;  // that attend at once, so that no sum waits for its own last step
constexpr int64_t FEW = 96;     // rows that wait for weights, and fetch the next panel
constexpr int64_t AHEAD = 0;    // the next panel, to the second cache
constexpr auto NEAR = _MM_HINT_T1;

bool fetches(int64_t) { return true; }

Lanes lanes(int64_t left) { return left; }

// The mask of the first floats of a register. A masked store is slow on AMD's CPUs, and a whole
// register needs none.
__m256i first(Lanes there) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(there)), places);
}

Vector all(float x) { return _mm256_set1_ps(x); }
Vector load(const float* x) { return _mm256_loadu_ps(x); }
Vector load(const float* x, Lanes there) {
  return there >= WIDE ? load(x) : _mm256_maskload_ps(x, first(there));
}
void store(float* y, Vector x) { _mm256_storeu_ps(y, x); }
void store(float* y, Vector x, Lanes there) {
  if (there >= WIDE) return store(y, x);
  _mm256_maskstore_ps(y, first(there), x);
}
Vector choose(Lanes there, Vector x, Vector y) {
  return there >= WIDE ? x : _mm256_blendv_ps(y, x, _mm256_castsi256_ps(first(there)));
}
Vector where_negative(Vector x, Vector then, Vector otherwise) {
  return _mm256_blendv_ps(otherwise, then, x);
}
Vector fma(Vector x, Vector y, Vector z) { return _mm256_fmadd_ps(x, y, z); }    // x y + z
Vector fnma(Vector x, Vector y, Vector z) { return _mm256_fnmadd_ps(x, y, z); }  // z - x y
// What is no number is the result if it is y.
Vector smaller(Vector x, Vector y) { return _mm256_min_ps(x, y); }
Vector larger(Vector x, Vector y) { return _mm256_max_ps(x, y); }
Vector absolute(Vector x) { return _mm256_andnot_ps(all(-0.0f), x); }
Vector nearest(Vector x) { return _mm256_round_ps(x, 8); }
Vector times_power_of_2(Vector x, Vector n) {  // -126 to 127
  const Whole exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return x * _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
Vector floats(Whole x) { return _mm256_cvtepi32_ps(x); }
float sum(Vector x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
float largest(Vector x) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// As those of compiled_avx512.h.
struct Float32 {
  static constexpr int64_t EACH = 1, GROUP = 1, VECTOR = 32, ROW_BYTES = 0;
  static constexpr int64_t BLOCK = ALL, MOST = 0, TOGETHER = 1;
  static constexpr int64_t PARTS = 3, TILE = 4;  // 12 registers hold sums
  using Register = Vector;
  static Register weight(const char* at) { return load(reinterpret_cast<const float*>(at)); }
  static Register row(const Rows& x, int64_t n, int64_t k) {
    return all(x.floats[n * x.stride + k]);
  }
  static Register add(Register sum, Register x, Register w) { return fma(x, w, sum); }
};

struct Float16 : Float32 {
  static constexpr int64_t VECTOR = 16;
  static Register weight(const char* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
};

struct BFloat16 : Float16 {  // rows stay in float32: a product of shorter ones is not faster
  static Register weight(const char* at) {
    const __m128i short_ = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(short_), 16));
  }
};

// Bytes of 0 to `top` of a row, or of a block of one: x ~ low + step q.
void bytes_of(const float* x, int64_t width, float top, uint8_t* q, float* step, float* low) {
  Vector least = all(x[0]), most = least, spoilt = all(0.0f);
  for (int64_t k = 0; k < width; k += WIDE) {
    const Vector v = choose(width - k, load(x + k, width - k), least);
    spoilt = spoilt + all(0.0f) * v;  // no number if v is none or infinite
    most = larger(v, most);
    least = smaller(v, least);
  }
  const float base = -largest(all(0.0f) - least), range = largest(most) - base;
  const Vector inverse = all(top / (range + 1e-20f));
  *low = sum(spoilt) == 0.0f ? base : NAN;
  *step = range / top;
  for (int64_t k = 0; k < width; k += WIDE) {
    const Whole whole = _mm256_cvtps_epi32((load(x + k, width - k) - all(base)) * inverse);
    const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(whole),
                                           _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(q + k), _mm_packus_epi16(halves, halves));
  }
}
