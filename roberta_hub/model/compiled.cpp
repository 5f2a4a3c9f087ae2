// Computes a Transformer layer on packed rows in one call, and in another what the first one reads.
//
// Plain C++ for ctypes that knows neither Python nor torch; compiled.py loads it, and its plain
// twins are layer.py and embeddings.py. Few rows wait for the weights alone. Legend: N rows,
// C width, F inner width, T tokens of a sequence, D width of a head.

#include <cstdint>

extern "C" {

struct Matrix {         // y = x W^T + b, (N, inputs) -> (N, outputs)
  const void* weight;   // panels of 32 outputs; see compiled.py
  const float* bias;    // (outputs,), and room up to whole panels, as the next two
  const float* scale;   // int8: W ~ scale Q
  const float* sums;    // int8: scale times the sum of Q's row
  int64_t inputs, outputs;
};

struct Norm {
  const float *weight, *bias;  // (C,)
  float eps;
};

struct Layer {
  Matrix query_key_value, mix, widen, narrow;
  Norm attention_norm, final_norm;
  int64_t heads;
  int32_t normalize_before;
  int32_t held;  // what holds the weights: an index of HELD of compiled.py
};

struct Sum {  // what the first layer reads: rows of tables, added and normalized
  const float* tables[3];  // (sizes[i], width)
  const int64_t* rows[3];  // (N,) of the table; null: its first N
  int64_t sizes[3], count, width;  // `count` tables
  Norm norm;  // of null, if the sum stays as it is
};

struct Batch {
  int64_t rows, sequences, longest;
  const int64_t* lengths;  // (sequences,)
  const int64_t* asked;    // one row of each sequence, or null for all rows
};

int compiled_version() { return 5; }  // VERSION of compiled.py
}

#if defined(__linux__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#define HAS_BFLOAT16 (__GNUC__ >= 10)  // of older ones all but this form is built

// What `held` can be on this CPU: a bit each.
extern "C" int compiled_can() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return 0;
  int can = __builtin_cpu_supports("avx512vnni") ? 7 : 3;
#if HAS_BFLOAT16
  can |= __builtin_cpu_supports("avx512bf16") ? 8 : 0;
#endif
  return can;
}

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")
#if HAS_BFLOAT16
#pragma GCC target("avx512bf16")
#endif

namespace {

enum Held { FLOAT32, FLOAT16, INT8, BFLOAT16 };

constexpr int64_t WIDE = 16;   // floats of a register
constexpr int64_t PANEL = 32;  // outputs of a panel, two registers
constexpr int64_t TILE = 12;   // rows of a tile at most: 24 of 32 registers hold sums
constexpr int64_t FEW = 32;    // rows that wait for weights, and may fetch them `AHEAD` bytes ahead
constexpr int64_t AHEAD = 2048;
constexpr int64_t CHUNK = 384;  // rows that go through several products while a cache holds them

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The lanes of a register of which `left` floats are there.
__mmask16 lanes(int64_t left) { return left >= WIDE ? 0xffff : (1u << left) - 1; }

// Waits until `ready`. When that takes long it lets others have the core: the thread that all wait
// for may want it.
template <class Ready>
void wait_until(const Ready& ready) {
  for (int spins = 0; !ready();)
    if (spins < 1000) spins++, _mm_pause();  // tens of microseconds
    else sched_yield();
}

// A part of a call whose jobs may run in any order; the next one needs them all.
struct Stage {
  alignas(64) std::atomic<int64_t> taken{0};
  alignas(64) std::atomic<int64_t> done{0};
};

// One of the threads of a call, on its way from stage to stage. It takes jobs while there are any
// and waits for those that others took, never for a thread that has not come: one that is woken
// late finds less to do.
struct Member {
  Stage* stage;
  const int64_t number, count;  // of this one; of all that may come
  template <class Work>         // work(first, last) does some jobs
  void share(int64_t jobs, const Work& work) {
    if (count == 1) return work(0, jobs);
    int64_t first = stage->taken.load(std::memory_order_relaxed);
    while (first < jobs) {  // a part of what is left, so that all are done at about the same time
      const int64_t last = first + up(jobs - first, 2 * count) / (2 * count);
      if (!stage->taken.compare_exchange_weak(first, last, std::memory_order_relaxed)) continue;
      work(first, last);
      stage->done.fetch_add(last - first, std::memory_order_release);
      first = stage->taken.load(std::memory_order_relaxed);
    }
    wait_until([&] { return stage->done.load(std::memory_order_acquire) == jobs; });
    stage++;
  }
};

// 2^n e^r with |r| <= ln 2 / 2 and the polynomial of Cephes' expf. What is no number stays so.
__m512 exponential(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-87.3f), _mm512_min_ps(_mm512_set1_ps(88.0f), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                  5.0000001201e-1f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
  return _mm512_scalef_ps(p, n);
}

// x (1 + erf(x / sqrt 2)) / 2, with erf to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
__m512 gelu(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(0.70710678f));
  const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(z, _mm512_set1_ps(0.3275911f), one));
  __m512 p = _mm512_set1_ps(1.061405429f);
  for (float c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(c));
  const __m512 bell = exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(z, z)));
  const __m512 rest = _mm512_mul_ps(_mm512_mul_ps(p, t), bell);  // 1 - erf(z)
  const __m512 part = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(0.5f)), rest);
  const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(_mm512_sub_ps(x, part), negative, part);
}

struct Rows {
  const float* floats;        // (N, stride), or
  const uint8_t* bytes;       // (N, stride), bfloat16 or int8
  const float *steps, *lows;  // int8: (N,) each, x ~ low + step q
  int64_t stride;
};

struct Outputs {
  const Matrix& matrix;
  const float* residual;  // (N, outputs) or null
  bool activate;
  float* y;  // (N, stride)
  int64_t stride;
};

// How a form of weights is multiplied: `EACH` inputs by 16 outputs at a time, in `VECTOR` bytes.
struct Float32 {
  static constexpr int64_t EACH = 1, VECTOR = 64;
  using Register = __m512;
  static Register load(const char* weight) { return _mm512_loadu_ps(weight); }
  static Register row(const Rows& x, int64_t n, int64_t k) {
    return _mm512_set1_ps(x.floats[n * x.stride + k]);
  }
  static Register add(Register sum, Register x, Register w) { return _mm512_fmadd_ps(x, w, sum); }
};

struct Float16 : Float32 {
  static constexpr int64_t VECTOR = 32;
  static Register load(const char* weight) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight)));
  }
};

struct Int8 {
  static constexpr int64_t EACH = 4, VECTOR = 64;
  using Register = __m512i;
  static __m512i load(const char* weight) { return _mm512_loadu_si512(weight); }
  static __m512i row(const Rows& x, int64_t n, int64_t k) {
    int32_t four;  // bytes
    std::memcpy(&four, x.bytes + n * x.stride + 4 * k, 4);
    return _mm512_set1_epi32(four);
  }
  static Register add(Register sum, __m512i x, __m512i w) { return _mm512_dpbusd_epi32(sum, x, w); }
};

#if HAS_BFLOAT16
struct BFloat16 : Int8 {  // as many bytes at a time
  static constexpr int64_t EACH = 2;
  using Register = __m512;
  static Register add(Register sum, __m512i x, __m512i w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
  }
};
#endif

__m512 value(__m512 sum, const Rows&, const Matrix& m, int64_t, int64_t column) {
  return _mm512_add_ps(sum, _mm512_loadu_ps(m.bias + column));
}

__m512 value(__m512i sum, const Rows& x, const Matrix& m, int64_t n, int64_t column) {
  const __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(m.scale + column));
  const __m512 z =
      _mm512_fmadd_ps(y, _mm512_set1_ps(x.steps[n]), _mm512_loadu_ps(m.bias + column));
  return _mm512_fmadd_ps(_mm512_set1_ps(x.lows[n]), _mm512_loadu_ps(m.sums + column), z);
}

// Makes results of a tile's sums, (count, 32), from row n and `column` on.
template <class Register>
__attribute__((noinline)) void finish(const Register* sums, int64_t count, const Rows& x, int64_t n,
                                      int64_t column, const Outputs& out) {
  const int64_t width = out.matrix.outputs;
  for (int64_t half = 0, at = column; half < 2 && at < width; half++, at += WIDE) {
    const __mmask16 mask = lanes(width - at);
    for (int64_t i = 0; i < count; i++) {
      const int64_t place = (n + i) * width + at;
      __m512 y = value(sums[2 * i + half], x, out.matrix, n + i, at);
      if (out.activate) y = gelu(y);
      if (out.residual) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, out.residual + place));
      _mm512_mask_storeu_ps(out.y + (n + i) * out.stride + at, mask, y);
    }
  }
}

// Multiplies M rows from row n on by a panel.
template <class Form, bool FETCH, int M>
void tile(const Rows& x, int64_t n, const char* panel, int64_t steps, int64_t column,
          const Outputs& out) {
  typename Form::Register left[M] = {}, right[M] = {};
  for (int64_t k = 0; k < steps; k++) {
    const auto a = Form::load(panel), b = Form::load(panel + Form::VECTOR);
    if (FETCH) {
      _mm_prefetch(panel + AHEAD, _MM_HINT_T0);
      if (Form::VECTOR == 64) _mm_prefetch(panel + AHEAD + 64, _MM_HINT_T0);
    }
    panel += 2 * Form::VECTOR;
#pragma GCC unroll 12
    for (int i = 0; i < M; i++) {
      const auto row = Form::row(x, n + i, k);
      left[i] = Form::add(left[i], row, a);
      right[i] = Form::add(right[i], row, b);
    }
  }
  typename Form::Register sums[2 * M];
#pragma GCC unroll 12
  for (int i = 0; i < M; i++) sums[2 * i] = left[i], sums[2 * i + 1] = right[i];
  finish(sums, M, x, n, column, out);
}

template <class Form, bool FETCH>
constexpr decltype(&tile<Form, FETCH, 1>) TILES[TILE] = {
    tile<Form, FETCH, 1>, tile<Form, FETCH, 2>,  tile<Form, FETCH, 3>,  tile<Form, FETCH, 4>,
    tile<Form, FETCH, 5>, tile<Form, FETCH, 6>,  tile<Form, FETCH, 7>,  tile<Form, FETCH, 8>,
    tile<Form, FETCH, 9>, tile<Form, FETCH, 10>, tile<Form, FETCH, 11>, tile<Form, FETCH, 12>};

template <class Form>
void product(Member& member, const Rows& x, int64_t rows, const Outputs& out) {
  // A Zen 4 fetches by itself what it need not convert: asking for it costs up to 10 % there.
  const bool fetch = rows <= FEW && (Form::VECTOR == 32 || !__builtin_cpu_is("amd"));
  const auto& tiles = fetch ? TILES<Form, true> : TILES<Form, false>;
  const Matrix& m = out.matrix;
  const int64_t panels = up(m.outputs, PANEL) / PANEL;
  const int64_t steps = up(m.inputs, Form::EACH) / Form::EACH;
  const int64_t blocks = up(rows, TILE) / TILE;  // of even sizes
  const int64_t parts = std::min(blocks, up(4 * member.count, panels) / panels);
  member.share(panels * parts, [&](int64_t first, int64_t last) {
    for (int64_t job = first; job < last; job++) {
      const int64_t p = job / parts, part = job % parts;
      const char* panel = static_cast<const char*>(m.weight) + p * steps * 2 * Form::VECTOR;
      for (int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; b++) {
        const int64_t n = rows * b / blocks, count = rows * (b + 1) / blocks - n;
        tiles[count - 1](x, n, panel, steps, p * PANEL, out);
      }
    }
  });
}

// As fbgemm's FloatToFused8BitRowwiseQuantizedSBFloat, which int8.py calls.
void quantize(const float* x, int64_t width, uint8_t* q, float* step, float* low) {
  __m512 least = _mm512_set1_ps(x[0]), most = least;
  __mmask16 spoilt = 0;
  for (int64_t k = 0; k < width; k += WIDE) {
    const __m512 v = _mm512_mask_loadu_ps(least, lanes(width - k), x + k);
    spoilt |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    most = _mm512_mask_max_ps(most, lanes(width - k), most, v);
    least = _mm512_min_ps(least, v);
  }
  const float base = _mm512_reduce_min_ps(least), range = _mm512_reduce_max_ps(most) - base;
  const __m512 inverse = _mm512_set1_ps(255.0f / (range + 1e-8f));
  *low = spoilt ? NAN : base;
  *step = range / 255.0f;
  for (int64_t k = 0; k < width; k += WIDE) {
    const __m512 v = _mm512_maskz_loadu_ps(lanes(width - k), x + k);
    const __m512 scaled = _mm512_mul_ps(_mm512_sub_ps(v, _mm512_set1_ps(base)), inverse);
    _mm_mask_storeu_epi8(q + k, lanes(width - k), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled)));
  }
}

#if HAS_BFLOAT16
// Rounds a row to bfloat16; zeros follow up to a whole register.
void shorten(const float* x, int64_t width, uint8_t* y) {
  for (int64_t k = 0; k < width; k += WIDE) {
    const __m512 v = _mm512_maskz_loadu_ps(lanes(width - k), x + k);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + 2 * k),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
  }
}
#endif

void normalize(const float* x, int64_t width, const Norm& norm, float* y) {
  __m512 sum = _mm512_setzero_ps(), squares = sum;
  for (int64_t k = 0; k < width; k += WIDE)
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes(width - k), x + k));
  const float count = static_cast<float>(width);
  const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / count);
  for (int64_t k = 0; k < width; k += WIDE) {
    const __mmask16 mask = lanes(width - k);
    const __m512 v = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + k), mean);
    squares = _mm512_fmadd_ps(v, v, squares);
  }
  const float variance = _mm512_reduce_add_ps(squares) / count;
  const __m512 scale = _mm512_set1_ps(1.0f / std::sqrt(variance + norm.eps));
  for (int64_t k = 0; k < width; k += WIDE) {
    const __mmask16 mask = lanes(width - k);
    const __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + k), mean);
    const __m512 z = _mm512_fmadd_ps(_mm512_mul_ps(v, scale),
                                     _mm512_maskz_loadu_ps(mask, norm.weight + k),
                                     _mm512_maskz_loadu_ps(mask, norm.bias + k));
    _mm512_mask_storeu_ps(y + k, mask, z);
  }
}

// One head of one sequence. Queries, and the keys and values of T tokens, lie `stride` apart.
void attend(const float* query, int64_t queries, const float* key, const float* value,
            int64_t tokens, int64_t width, int64_t stride, float* mixed, int64_t mixed_stride,
            float* space) {
  constexpr int64_t AT_ONCE = 8;  // queries, so that no sum waits for its own last step
  const int64_t wide = up(tokens, WIDE);
  float* turned = space;                  // keys, (D, T)
  float* weights = space + width * wide;  // (8, T)
  for (int64_t begin = 0; begin < wide; begin += WIDE)  // so many rows stay in the cache
    for (int64_t d = 0; d < width; d++)
      for (int64_t t = begin; t < begin + WIDE; t++)
        turned[d * wide + t] = t < tokens ? key[t * stride + d] : 0.0f;
  const __m512 scale = _mm512_set1_ps(1.0f / std::sqrt(static_cast<float>(width)));
  const __m512 nothing = _mm512_set1_ps(-INFINITY);
  for (int64_t i = 0; i < queries; i += AT_ONCE) {
    const float* q[AT_ONCE];
    __m512 shares[AT_ONCE];
    for (int64_t j = 0; j < AT_ONCE; j++) q[j] = query + std::min(i + j, queries - 1) * stride;
    for (int64_t t = 0; t < wide; t += WIDE) {
      __m512 sums[AT_ONCE] = {};
      for (int64_t d = 0; d < width; d++)
#pragma GCC unroll 8
        for (int64_t j = 0; j < AT_ONCE; j++)
          sums[j] = _mm512_fmadd_ps(_mm512_set1_ps(q[j][d]),
                                    _mm512_loadu_ps(turned + d * wide + t), sums[j]);
#pragma GCC unroll 8
      for (int64_t j = 0; j < AT_ONCE; j++)
        _mm512_storeu_ps(weights + j * wide + t, _mm512_mask_mul_ps(nothing, lanes(tokens - t),
                                                                    sums[j], scale));
    }
    for (int64_t j = 0; j < AT_ONCE; j++) {  // softmax
      float* own = weights + j * wide;
      __m512 most = nothing, sum = _mm512_setzero_ps();
      for (int64_t t = 0; t < wide; t += WIDE) most = _mm512_max_ps(most, _mm512_loadu_ps(own + t));
      const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most));
      for (int64_t t = 0; t < wide; t += WIDE) {
        const __m512 e = exponential(_mm512_sub_ps(_mm512_loadu_ps(own + t), top));
        sum = _mm512_mask_add_ps(sum, lanes(tokens - t), sum, e);
        _mm512_storeu_ps(own + t, e);
      }
      shares[j] = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
    }
    for (int64_t d = 0; d < width; d += WIDE) {
      const __mmask16 mask = lanes(width - d);
      __m512 sums[AT_ONCE] = {};
      for (int64_t t = 0; t < tokens; t++) {
        const __m512 v = _mm512_maskz_loadu_ps(mask, value + t * stride + d);
#pragma GCC unroll 8
        for (int64_t j = 0; j < AT_ONCE; j++)
          sums[j] = _mm512_fmadd_ps(_mm512_set1_ps(weights[j * wide + t]), v, sums[j]);
      }
#pragma GCC unroll 8
      for (int64_t j = 0; j < AT_ONCE; j++)
        if (i + j < queries)
          _mm512_mask_storeu_ps(mixed + (i + j) * mixed_stride + d, mask,
                                _mm512_mul_ps(sums[j], shares[j]));
    }
  }
}

int64_t chunks(int64_t rows) { return up(rows, CHUNK) / CHUNK; }

// Where a call's intermediate results lie, in floats from `at` on.
struct Space {
  Stage* stages;
  int64_t stage_count;
  float *projected, *mixed, *kept, *summed, *normed, *inner, *steps, *lows, *heads;
  uint8_t* bytes;
  int64_t wide, stride, head, total;
  Space(const Layer& layer, const Batch& batch, int64_t threads, float* at) {
    const int64_t c = layer.mix.outputs, f = layer.widen.outputs, n = batch.rows;
    const int64_t some = std::min(n, CHUNK);
    float* const begin = at;
    auto take = [&at](int64_t count) { return (at += up(count, WIDE)) - up(count, WIDE); };
    stage_count = 2 * chunks(n) + 1 + 7 * chunks(batch.asked ? batch.sequences : n);
    stages = reinterpret_cast<Stage*>(take(stage_count * sizeof(Stage) / sizeof(float)));
    projected = take(n * 3 * c);  // queries, keys and values
    mixed = take(n * c), kept = take(n * c);
    summed = take(some * c), normed = take(some * c);
    // A cache line more, so that the rows of a tile do not all lie in one set of the cache.
    wide = up(f, WIDE) + WIDE;
    inner = take(some * wide);
    steps = take(some), lows = take(some);
    stride = up(std::max(c, f), 64) * (layer.held == BFLOAT16 ? 2 : 1) + 64;
    bytes = reinterpret_cast<uint8_t*>(take(some * stride / 4));
    head = up((c / layer.heads + 8) * up(batch.longest, WIDE), WIDE);
    heads = take(head * threads);
    total = at - begin;
  }
};

struct Call {
  void (*const work)(const Call&, Member);  // what each thread does
  Stage* const stages;
  const int64_t threads;           // that may take part
  int64_t came = 1;                // so far, with the caller; the pool's mutex guards it
  std::atomic<int64_t> inside{0};  // without the caller
  Call(void (*does)(const Call&, Member), Stage* first, int64_t count)
      : work(does), stages(first), threads(count) {}
};

struct SumCall : Call {
  const Sum& sum;
  int64_t rows;
  float* y;  // (N, width)
  std::atomic<bool>* lacking;  // whether a table lacks a row
};

void add_rows(const Call& any, Member member) {
  const SumCall& call = static_cast<const SumCall&>(any);
  const Sum& sum = call.sum;
  member.share(call.rows, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; n++) {
      float* y = call.y + n * sum.width;
      for (int64_t i = 0; i < sum.count; i++) {
        const int64_t row = sum.rows[i] ? sum.rows[i][n] : n;
        if (row < 0 || row >= sum.sizes[i]) return call.lacking->store(true);
        const float* x = sum.tables[i] + row * sum.width;
        for (int64_t k = 0; k < sum.width; k++) y[k] = i ? y[k] + x[k] : x[k];
      }
      if (sum.norm.weight) normalize(y, sum.width, sum.norm, y);
    }
  });
}

struct LayerCall : Call {
  const Layer& layer;
  const Batch& batch;
  const float* x;  // (N, C)
  float* y;        // (N, C), or (sequences, C)
  const Space& space;
};

// Rows that a product reads: those of x, or these normalized.
struct Input {
  const float* x;  // (N, stride)
  int64_t stride;
  const Norm* norm;  // or null
  float* normed;     // (N, inputs)
};

void compute_layer(const Call& any, Member member) {
  const LayerCall& call = static_cast<const LayerCall&>(any);
  const Layer& layer = call.layer;
  const Batch& batch = call.batch;
  const Space& space = call.space;
  const int64_t c = layer.mix.outputs, d = c / layer.heads;
  const bool short_rows = layer.held == INT8 || layer.held == BFLOAT16;
  const bool before = layer.normalize_before;

  const auto multiply = [&](const Input& in, int64_t n, const Outputs& out) {
    const int64_t width = out.matrix.inputs;
    const float* x = in.norm ? in.normed : in.x;
    const int64_t stride = in.norm ? width : in.stride;
    if (in.norm || short_rows)
      member.share(n, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i++) {
          uint8_t* row = space.bytes + i * space.stride;
          if (in.norm) normalize(in.x + i * in.stride, width, *in.norm, in.normed + i * width);
          if (layer.held == INT8)
            quantize(x + i * stride, width, row, space.steps + i, space.lows + i);
#if HAS_BFLOAT16
          if (layer.held == BFLOAT16) shorten(x + i * stride, width, row);
#endif
        }
      });
    const Rows floats{x, nullptr, nullptr, nullptr, stride};
    const Rows bytes{nullptr, space.bytes, space.steps, space.lows, space.stride};
    if (layer.held == INT8) product<Int8>(member, bytes, n, out);
#if HAS_BFLOAT16
    else if (layer.held == BFLOAT16) product<BFloat16>(member, bytes, n, out);
#endif
    else if (layer.held == FLOAT16) product<Float16>(member, floats, n, out);
    else product<Float32>(member, floats, n, out);
  };
  const auto in_chunks = [](int64_t n, auto some) {
    for (int64_t i = 0; i < chunks(n); i++)
      some(n * i / chunks(n), n * (i + 1) / chunks(n) - n * i / chunks(n));
  };

  in_chunks(batch.rows, [&](int64_t from, int64_t n) {
    const Input x{call.x + from * c, c, before ? &layer.attention_norm : nullptr, space.normed};
    multiply(x, n, {layer.query_key_value, nullptr, false, space.projected + from * 3 * c, 3 * c});
  });
  member.share(batch.sequences * layer.heads, [&](int64_t first, int64_t last) {
    int64_t row = 0;  // the first one of sequence b
    for (int64_t b = 0; b * layer.heads < last; row += batch.lengths[b++]) {
      const int64_t tokens = batch.lengths[b];
      const int64_t from = batch.asked ? batch.asked[b] : row, to = batch.asked ? b : row;
      const int64_t begin = std::max(first - b * layer.heads, int64_t{0});
      for (int64_t h = begin; h < std::min(last - b * layer.heads, layer.heads); h++) {
        const float* all = space.projected + h * d;
        attend(all + from * 3 * c, batch.asked ? 1 : tokens, all + row * 3 * c + c,
               all + row * 3 * c + 2 * c, tokens, d, 3 * c, space.mixed + to * c + h * d, c,
               space.heads + member.number * space.head);
        if (batch.asked && h == 0)
          std::memcpy(space.kept + b * c, call.x + from * c, c * sizeof(float));
      }
    }
  });
  const float* kept = batch.asked ? space.kept : call.x;
  in_chunks(batch.asked ? batch.sequences : batch.rows, [&](int64_t from, int64_t n) {
    float* y = call.y + from * c;
    multiply({space.mixed + from * c, c, nullptr, nullptr}, n,
             {layer.mix, kept + from * c, false, space.summed, c});
    const Norm& norm = before ? layer.final_norm : layer.attention_norm;
    multiply({space.summed, c, &norm, space.normed}, n,
             {layer.widen, nullptr, true, space.inner, space.wide});
    const float* residual = before ? space.summed : space.normed;
    multiply({space.inner, space.wide, nullptr, nullptr}, n,
             {layer.narrow, residual, false, before ? y : space.summed, c});
    if (before) return;
    member.share(n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i++)
        normalize(space.summed + i * c, c, layer.final_norm, y + i * c);
    });
  });
}

#pragma GCC pop_options  // a library makes its pool on any CPU

// Threads that help every caller of this process, first him whom the fewest help.
//
// OpenMP's would do, but a call of theirs waits for all of a team. After a pause Linux often wakes
// a thread on the core of its waker, where it waits for milliseconds while another core is idle
// (6.18, two cores of a KVM guest: 0.7 to 3.4 ms in half of the calls, 0.1 where it may not go
// there).
class Pool {
 public:
  explicit Pool(const cpu_set_t& all) : all_(all) { open_.reserve(64); }

  void run(Call& call) {
    if (call.threads == 1) return call.work(call, {call.stages, 0, 1});
    int64_t wake;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const bool grown = grow(call.threads - 1);
      open_.push_back(&call);
      calls_.fetch_add(1, std::memory_order_release);
      wake = std::min(asleep_, call.threads - 1 - spinning_);
      if ((wake > 0 || grown) && open_.size() == 1) leave_caller_s_core();
    }
    for (; wake > 0; wake--) pthread_cond_signal(&called_);
    call.work(call, {call.stages, 0, call.threads});
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_.erase(std::find(open_.begin(), open_.end(), &call));
    }
    wait_until([&] { return call.inside.load(std::memory_order_acquire) == 0; });
  }

  const cpu_set_t& all() const { return all_; }

 private:
  // Makes threads until there are so many, if the system lets it; tells whether there are more.
  bool grow(int64_t count) {
    const size_t before = threads_.size();
    if (static_cast<int64_t>(before) >= count) return false;
    sigset_t others, own;  // signals are for the program's threads, but for those of a fault
    sigfillset(&others);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&others, fault);
    pthread_sigmask(SIG_SETMASK, &others, &own);
    pthread_t thread;
    const auto start = [](void* own) -> void* { return static_cast<Pool*>(own)->help(), nullptr; };
    while (static_cast<int64_t>(threads_.size()) < count &&
           pthread_create(&thread, nullptr, start, this) == 0) {
      pthread_detach(thread);
      pthread_setname_np(thread, "roberta_hub");
      threads_.push_back(thread);
    }
    pthread_sigmask(SIG_SETMASK, &own, nullptr);
    CPU_ZERO(&cores_);
    return threads_.size() > before;
  }

  void leave_caller_s_core() {
    cpu_set_t cores = all_;
    if (CPU_COUNT(&cores) == 0 && sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    CPU_CLR(sched_getcpu(), &cores);
    if (CPU_COUNT(&cores) == 0 || CPU_EQUAL(&cores, &cores_)) return;
    cores_ = cores;
    for (pthread_t thread : threads_)
      if (pthread_setaffinity_np(thread, sizeof cores, &cores) != 0) CPU_ZERO(&cores_);
  }

  Call* neediest() const {
    Call* found = nullptr;
    for (Call* call : open_)
      if (call->came < call->threads && (!found || call->came < found->came)) found = call;
    return found;
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (Call* const call = neediest()) {
        const Member member{call->stages, call->came++, call->threads};
        call->inside.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        call->work(*call, member);
        call->inside.fetch_sub(1, std::memory_order_release);
        lock.lock();
        continue;
      }
      const int64_t seen = calls_.load(std::memory_order_relaxed);
      spinning_++;
      lock.unlock();  // the next layer is likely to come at once
      for (int spins = 0; spins < 2000 && calls_.load(std::memory_order_relaxed) == seen; spins++)
        _mm_pause();
      lock.lock();
      spinning_--;
      if (calls_.load(std::memory_order_relaxed) != seen) continue;
      asleep_++;
      pthread_cond_wait(&called_, mutex_.native_handle());
      asleep_--;
    }
  }

  std::mutex mutex_;
  // Not C++'s, whose `wait` only the libstdc++ of GCC 12 and later has.
  pthread_cond_t called_ = PTHREAD_COND_INITIALIZER;
  std::vector<Call*> open_;
  std::vector<pthread_t> threads_;
  const cpu_set_t all_;  // where threads may run; where none is in it, those of the caller
  cpu_set_t cores_{};    // of them, where these may, once they were told
  std::atomic<int64_t> calls_{0};  // until now
  int64_t asleep_ = 0, spinning_ = 0;
};

Pool* pool = new Pool({});  // never deleted: its threads run until the process ends
// A child has none of its parent's threads, and gets its own.
const int in_child = pthread_atfork(nullptr, nullptr, [] { pool = new Pool(pool->all()); });

}  // namespace

// Floats that `compiled_layer` needs for intermediate results.
extern "C" int64_t compiled_space(const Layer* layer, const Batch* batch, int64_t threads) {
  return Space(*layer, *batch, threads, nullptr).total;
}

// Says where threads may run, before the first call: OpenMP binds its caller to one core if asked
// to.
extern "C" void compiled_cores(const int32_t* cores, int64_t count) {
  cpu_set_t all{};
  for (int64_t i = 0; i < count; i++) CPU_SET(cores[i], &all);
  pool = new Pool(all);
}

extern "C" void compiled_layer(const Layer* layer, const Batch* batch, const float* x, float* y,
                               float* space, int64_t threads) {
  const Space own(*layer, *batch, threads, space);
  for (int64_t i = 0; i < own.stage_count; i++) new (own.stages + i) Stage;
  LayerCall call{{compute_layer, own.stages, threads}, *layer, *batch, x, y, own};
  pool->run(call);
}

// Returns 0, or 1 where a table lacks a row; the sums are none then.
extern "C" int compiled_sum(const Sum* sum, int64_t rows, float* y, int64_t threads) {
  Stage stage;
  std::atomic<bool> lacking{false};
  SumCall call{{add_rows, &stage, threads}, *sum, rows, y, &lacking};
  pool->run(call);
  return lacking;
}

#else

extern "C" int compiled_can() { return 0; }

#endif
