// Compiled layers: what ctypes sees of them, at each level of instruction sets.
//
// Plain C++ that knows neither Python nor torch; compiled.py loads it. compiled_layer.h is included
// once for each level, and the caller says at which one a layer runs. Legend: N rows, C width.

#include <cstdint>

extern "C" {

struct Matrix {         // y = x W^T + b, (N, inputs) -> (N, outputs)
  const void* weight;   // panels of outputs; see compiled.py
  const float* bias;    // (outputs,), and room up to whole panels, as the next two
  const float* scale;   // int8: W ~ scale Q
  const float* sums;    // int8: of Q's rows, in panels of blocks of inputs
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
  int32_t held;   // what holds the weights: an index of WEIGHT_FORMATS of compiled.py
  int32_t level;  // an index of LEVELS, for which the weights are laid out
};

struct Product {
  Matrix matrix;
  int32_t activate;  // GELU
  int32_t held, level;  // as a layer's
};

struct Sum {  // what the first layer reads: rows of tables, added and normalized
  const float* tables[3];  // (sizes[i], width)
  const int64_t* rows[3];  // (N,) of the table; null: its first N
  int64_t sizes[3], count, width;  // `count` tables
  Norm norm;  // of null, if the sum stays as it is
  int32_t level;
};

struct Batch {
  int64_t rows, sequences, longest;
  const int64_t* lengths;  // (sequences,)
  const int64_t* asked;    // one row of each sequence, or null for all rows
};

struct FormShape {
  int64_t panel;  // outputs of a panel
  int64_t tile;   // rows of a tile at most
  int64_t each;   // inputs of an output that lie together
  int64_t step;   // inputs that are multiplied at a time
  int64_t block;  // int8: most inputs that share a scale of a row
  int64_t most;   // int8: of weights of one sign whose products meet in 16 bits; 0: no limit
};

struct Shapes {  // of a level
  int64_t can;  // what `held` can be on this CPU: a bit each
  FormShape forms[4];  // by `held`
};

int compiled_version() { return 10; }  // COMPILED_ABI_VERSION of compiled.py
}

#if defined(__linux__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#define HAS_BFLOAT16 (__GNUC__ >= 10)  // of older ones all but this form is built
#define HAS_AVX_VNNI (__GNUC__ >= 11)

namespace {

enum Held { FLOAT32, FLOAT16, INT8, BFLOAT16 };
constexpr int64_t ALL = int64_t{1} << 40;  // a block of any number of inputs
constexpr int64_t FLOATS = 1 << FLOAT32 | 1 << FLOAT16;

struct Rows {
  const float* floats;        // (N, stride), or
  const uint8_t* bytes;       // (N, stride), shorter numbers
  const float *steps, *lows;  // int8: (N, blocks) each, x ~ low + step q
  int64_t stride, blocks;
};

struct Level {  // what a level does; see compiled_layer.h
  FormShape forms[4];
  int64_t (*layer_space)(const Layer&, const Batch&, int64_t threads);
  void (*layer)(const Layer&, const Batch&, const float*, float*, float*, int64_t threads);
  int64_t (*product_space)(const Product&, int64_t rows);
  void (*product)(const Product&, int64_t rows, const float*, const float*, float*, float*,
                  int64_t threads);
  int (*sum)(const Sum&, int64_t rows, float*, int64_t threads);
};

#include "compiled_threads.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")
#if HAS_BFLOAT16
#pragma GCC target("avx512bf16")
#endif
namespace avx512 {
#include "compiled_avx512.h"
#include "compiled_layer.h"
}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace avx2 {
#include "compiled_avx2.h"
#include "compiled_avx2_int8.h"
#include "compiled_layer.h"
}  // namespace avx2
#pragma GCC pop_options

#if HAS_AVX_VNNI
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
namespace avx_vnni {
#include "compiled_avx2.h"
#include "compiled_avx_vnni.h"
#include "compiled_layer.h"
}  // namespace avx_vnni
#pragma GCC pop_options

// The same in AVX-512's encoding, so that it runs, if pinned, on CPUs with that alone.
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512vl,avx512vnni")
namespace avx512_vnni {
#include "compiled_avx2.h"
#include "compiled_avx_vnni.h"
#include "compiled_layer.h"
}  // namespace avx512_vnni
#pragma GCC pop_options
#else
namespace avx_vnni = avx2;  // can() does not name it
namespace avx512_vnni = avx2;
#endif

constexpr Level LEVELS[] = {avx2::LEVEL, avx_vnni::LEVEL, avx512::LEVEL};  // as in compiled.py

bool has_avx_vnni() {
#if HAS_AVX_VNNI
  return __builtin_cpu_supports("avxvnni");
#else
  return false;
#endif
}

const Level& at(int32_t level) {
  static constexpr Level OTHER = avx512_vnni::LEVEL;
  return level == 1 && !has_avx_vnni() ? OTHER : LEVELS[level];
}

// What holds weights at a level on this CPU. libgcc's word includes the system's: a CPU whose
// wide registers nobody saves has no such instructions.
int64_t can(int32_t level) {
  if (level < 2) {
    unsigned a, b, c = 0, d;
    const bool halves = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !halves) return 0;
    const bool other = HAS_AVX_VNNI && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512vnni");
    if (level == 1 && !has_avx_vnni() && !other) return 0;
    return FLOATS | 1 << INT8 | 1 << BFLOAT16;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return 0;
  int64_t found = FLOATS | (__builtin_cpu_supports("avx512vnni") ? 1 << INT8 : 0);
#if HAS_BFLOAT16
  found |= __builtin_cpu_supports("avx512bf16") ? 1 << BFLOAT16 : 0;
#endif
  return found;
}

}  // namespace

extern "C" void compiled_shapes(int32_t level, Shapes* shapes) {
  shapes->can = can(level);
  std::copy_n(at(level).forms, 4, shapes->forms);
}

// Floats that `compiled_layer` needs for intermediate results.
extern "C" int64_t compiled_space(const Layer* layer, const Batch* batch, int64_t threads) {
  return at(layer->level).layer_space(*layer, *batch, threads);
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
  at(layer->level).layer(*layer, *batch, x, y, space, threads);
}

// Floats that `compiled_product` needs for rows as it reads them.
extern "C" int64_t compiled_product_space(const Product* product, int64_t rows) {
  return at(product->level).product_space(*product, rows);
}

// Adds a residual, (N, outputs), unless it is null.
extern "C" void compiled_product(const Product* product, int64_t rows, const float* x,
                                 const float* residual, float* y, float* space, int64_t threads) {
  at(product->level).product(*product, rows, x, residual, y, space, threads);
}

// Returns 0, or 1 where a table lacks a row; the sums are none then.
extern "C" int compiled_sum(const Sum* sum, int64_t rows, float* y, int64_t threads) {
  return at(sum->level).sum(*sum, rows, y, threads);
}

#else

extern "C" void compiled_shapes(int32_t, Shapes* shapes) { *shapes = {}; }

#endif
