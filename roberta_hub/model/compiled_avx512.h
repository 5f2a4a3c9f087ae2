// AVX-512: 32 registers of 16 floats. compiled_layer.h is written over these names.

using Vector = __m512;
using Whole = __m512i;     // integers of 32 bits
using Lanes = __mmask16;  // which floats of a register are there

constexpr int64_t WIDE = 16;   // floats of a register
constexpr int64_t QUERIES = 8;  // that attend at once, so that no sum waits for its own last step
constexpr int64_t FEW = 32;  // rows that wait for weights, and may fetch them
constexpr int64_t AHEAD = 2048;  // bytes; to the nearest cache
constexpr auto NEAR = _MM_HINT_T0;

// Whether to fetch weights of which a register is made of so many bytes. A Zen 4 fetches by itself
// what it need not convert: asking for it costs up to 10 % there.
bool fetches(int64_t bytes) { return bytes == 32 || !__builtin_cpu_is("amd"); }

// The lanes of a register of which `left` floats are there.
Lanes lanes(int64_t left) { return left >= WIDE ? 0xffff : (1u << left) - 1; }

Vector all(float x) { return _mm512_set1_ps(x); }
Vector load(const float* x) { return _mm512_loadu_ps(x); }
Vector load(const float* x, Lanes there) { return _mm512_maskz_loadu_ps(there, x); }
void store(float* y, Vector x) { _mm512_storeu_ps(y, x); }
void store(float* y, Vector x, Lanes there) { _mm512_mask_storeu_ps(y, there, x); }
Vector choose(Lanes first, Vector x, Vector y) { return _mm512_mask_mov_ps(y, first, x); }
Vector where_negative(Vector x, Vector then, Vector otherwise) {
  return choose(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), then, otherwise);
}
Vector fma(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }    // x y + z
Vector fnma(Vector x, Vector y, Vector z) { return _mm512_fnmadd_ps(x, y, z); }  // z - x y
// What is no number is the result if it is y.
Vector smaller(Vector x, Vector y) { return _mm512_min_ps(x, y); }
Vector larger(Vector x, Vector y) { return _mm512_max_ps(x, y); }
Vector absolute(Vector x) { return _mm512_abs_ps(x); }
Vector nearest(Vector x) { return _mm512_roundscale_ps(x, 8); }
Vector times_power_of_2(Vector x, Vector n) { return _mm512_scalef_ps(x, n); }
Vector floats(Whole x) { return _mm512_cvtepi32_ps(x); }
float sum(Vector x) { return _mm512_reduce_add_ps(x); }
float largest(Vector x) { return _mm512_reduce_max_ps(x); }

// How a form of weights is multiplied: `EACH` inputs by a register of outputs at a time, in
// `VECTOR` bytes, `PARTS` registers of outputs for `TILE` rows at most. It reads rows of floats, or of `ROW_BYTES` bytes that `shorten` writes.
struct Float32 {
  static constexpr int64_t EACH = 1, GROUP = 1, VECTOR = 64, ROW_BYTES = 0;
  static constexpr int64_t BLOCK = ALL, MOST = 0, TOGETHER = 1;
  static constexpr int64_t PARTS = 2, TILE = 12;  // 24 registers hold sums
  using Register = Vector;
  static Register weight(const char* at) { return _mm512_loadu_ps(at); }
  static Register row(const Rows& x, int64_t n, int64_t k) {
    return _mm512_set1_ps(x.floats[n * x.stride + k]);
  }
  static Register add(Register sum, Register x, Register w) { return fma(x, w, sum); }
};

struct Float16 : Float32 {
  static constexpr int64_t VECTOR = 32;
  static Register weight(const char* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
};

struct Int8 {
  static constexpr int64_t EACH = 4, GROUP = 1, VECTOR = 64, ROW_BYTES = 1;
  static constexpr int64_t PARTS = 2, TILE = 12, BLOCK = ALL, MOST = 0, TOGETHER = 1;
  using Register = Whole;
  static Whole weight(const char* at) { return _mm512_loadu_si512(at); }
  static Whole row(const Rows& x, int64_t n, int64_t k) {
    int32_t four;  // bytes
    std::memcpy(&four, x.bytes + n * x.stride + 4 * k, 4);
    return _mm512_set1_epi32(four);
  }
  static Register add(Register sum, Whole x, Whole w) { return _mm512_dpbusd_epi32(sum, x, w); }

  // As fbgemm's FloatToFused8BitRowwiseQuantizedSBFloat, which int8.py calls.
  static void shorten(const float* x, int64_t width, uint8_t* q, float* step, float* low) {
    Vector least = all(x[0]), most = least;
    Lanes spoilt = 0;
    for (int64_t k = 0; k < width; k += WIDE) {
      const Vector v = _mm512_mask_loadu_ps(least, lanes(width - k), x + k);
      spoilt |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      most = _mm512_mask_max_ps(most, lanes(width - k), most, v);
      least = smaller(least, v);
    }
    const float base = _mm512_reduce_min_ps(least), range = largest(most) - base;
    const Vector inverse = all(255.0f / (range + 1e-8f));
    *low = spoilt ? NAN : base;
    *step = range / 255.0f;
    for (int64_t k = 0; k < width; k += WIDE) {
      const Lanes there = lanes(width - k);
      const Vector scaled = (load(x + k, there) - all(base)) * inverse;
      _mm_mask_storeu_epi8(q + k, there, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled)));
    }
  }
};

#if HAS_BFLOAT16
struct BFloat16 : Int8 {  // as many bytes at a time
  static constexpr int64_t EACH = 2, ROW_BYTES = 2;
  using Register = Vector;
  static Register add(Register sum, Whole x, Whole w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
  }

  // Rounds a row; zeros follow up to a whole register.
  static void shorten(const float* x, int64_t width, uint8_t* y, float*, float*) {
    for (int64_t k = 0; k < width; k += WIDE)
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(y + 2 * k),
          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(load(x + k, lanes(width - k)))));
  }
};
#else
using BFloat16 = Float32;  // compiled_can() does not name it
#endif
