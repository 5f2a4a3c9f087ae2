// Runs compiled layers, products and sums at every level of this CPU, for the sanitizers: memory of exactly
// the size that compiled.py gives, odd shapes, values that are no numbers, threads and a fork.

#include "../../roberta_hub/model/compiled.cpp"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

namespace {

thread_local std::mt19937 generator{5};

struct Memory {  // from a cache line's start; what is after its end belongs to nobody
  void* at = nullptr;
  explicit Memory(size_t bytes) {
    if (posix_memalign(&at, 64, std::max<size_t>(bytes, 1)) != 0) std::abort();
  }
  Memory(const Memory&) = delete;
  ~Memory() { std::free(at); }
};

class Tensors {
 public:
  float* floats(int64_t count, float scale) {
    float* x = static_cast<float*>(take(count * sizeof(float)));
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; i++) x[i] = scale * normal(generator);
    return x;
  }
  void* take(size_t bytes) { return kept_.emplace_back(new Memory(bytes))->at; }

 private:
  std::vector<std::unique_ptr<Memory>> kept_;
};

Matrix matrix(Tensors& tensors, const FormShape& form, int held, int64_t inputs, int64_t outputs) {
  const int64_t count = up(inputs, form.block) / form.block;
  const int64_t wide = count * up(up(inputs, count) / count, form.step);
  const int64_t tall = up(outputs, form.panel), size = tall * wide;
  const float scale = 1.0f / std::sqrt(static_cast<float>(inputs));
  const float* drawn = tensors.floats(size, scale);
  const float* bias = tensors.floats(tall, 0.1f);
  if (held == FLOAT32) return {drawn, bias, nullptr, nullptr, inputs, outputs};
  if (held == INT8) {
    int8_t* bytes = static_cast<int8_t*>(tensors.take(size));
    const int most = form.most ? form.most / 8 : 127;  // so that no sum of 16 bits is too large
    std::uniform_int_distribution<int> byte(-most, most);
    for (int64_t i = 0; i < size; i++) bytes[i] = static_cast<int8_t>(byte(generator));
    const float* sums = tensors.floats(tall * count, 1.0f);
    return {bytes, bias, tensors.floats(tall, 0.01f), sums, inputs, outputs};
  }
  uint16_t* halves = static_cast<uint16_t*>(tensors.take(2 * size));
  std::uniform_int_distribution<int> mantissa(0, 127);  // of numbers around 0.01 in both formats
  for (int64_t i = 0; i < size; i++)
    halves[i] = static_cast<uint16_t>((held == FLOAT16 ? 0x2000 : 0x3c00) | mantissa(generator));
  return {halves, bias, nullptr, nullptr, inputs, outputs};
}

Norm norm(Tensors& tensors, int64_t width) {
  return {tensors.floats(width, 1.0f), tensors.floats(width, 0.1f), 1e-5f};
}

struct Size {
  int64_t width, inner, heads;
};

struct Run {
  std::vector<int64_t> lengths;
  bool asked;
};

void run(const Layer& layer, const Run& batch, float spoilt, int64_t threads) {
  Tensors tensors;
  int64_t rows = 0, longest = 0;
  std::vector<int64_t> asked;
  for (int64_t length : batch.lengths) {
    asked.push_back(rows + length / 2);
    rows += length, longest = std::max(longest, length);
  }
  const int64_t count = batch.lengths.size(), width = layer.mix.outputs;
  const Batch all{rows, count, longest, batch.lengths.data(), batch.asked ? asked.data() : nullptr};
  float* x = tensors.floats(rows * width, 1.0f);
  x[rows * width / 2] += spoilt;
  float* y = static_cast<float*>(tensors.take((batch.asked ? count : rows) * width * 4));
  float* space = static_cast<float*>(tensors.take(compiled_space(&layer, &all, threads) * 4));
  compiled_layer(&layer, &all, x, y, space, threads);
}

void multiply(const FormShape& form, int held, int32_t level, int64_t rows, int64_t threads) {
  for (const auto& [inputs, outputs] : {std::pair<int64_t, int64_t>{1, 1}, {9, 17}, {300, 50}}) {
    Tensors tensors;
    const Product product{matrix(tensors, form, held, inputs, outputs), rows % 2 == 0, held, level};
    const float* residual = rows % 3 ? tensors.floats(rows * outputs, 1.0f) : nullptr;
    const float* x = tensors.floats(rows * inputs, 1.0f);
    float* y = static_cast<float*>(tensors.take(rows * outputs * 4));
    float* space = static_cast<float*>(tensors.take(compiled_product_space(&product, rows) * 4));
    compiled_product(&product, rows, x, residual, y, space, threads);
  }
}

void add(int32_t level, int64_t width, int64_t rows, int64_t threads) {
  Tensors tensors;
  int64_t* places = static_cast<int64_t*>(tensors.take(rows * sizeof(int64_t)));
  for (int64_t n = 0; n < rows; n++) places[n] = n % 3;
  const Sum sum{{tensors.floats(3 * width, 1.0f), tensors.floats(rows * width, 1.0f), nullptr},
                {places, nullptr, nullptr}, {3, rows, 0}, 2, width, norm(tensors, width), level};
  float* y = static_cast<float*>(tensors.take(rows * width * 4));
  if (compiled_sum(&sum, rows, y, threads) != 0) std::abort();
  places[rows / 2] = 3;  // there is no such row
  if (compiled_sum(&sum, rows, y, threads) != 1) std::abort();
}

void every(int32_t level, int64_t threads) {
  Shapes shapes;
  compiled_shapes(level, &shapes);
  const Run runs[] = {{{1}, false}, {{5, 0, 13}, false}, {{3, 9, 4}, true}, {{385, 20}, true}};
  std::vector<float> spoilt{0.0f};
  if (threads == 1) spoilt.insert(spoilt.end(), {1e-40f, 1e30f, NAN, INFINITY});
  for (int held = 0; held < 4; held++)
    for (const Size& size : {Size{1, 1, 1}, Size{17, 9, 1}, Size{36, 52, 3}, Size{264, 300, 12}})
      for (int32_t before : {0, 1}) {
        if (!(shapes.can >> held & 1)) continue;
        Tensors tensors;
        const auto [c, f, heads] = size;
        const FormShape& form = shapes.forms[held];
        const auto make = [&](int64_t k, int64_t n) { return matrix(tensors, form, held, k, n); };
        const Layer layer{make(c, 3 * c), make(c, c), make(c, f), make(f, c), norm(tensors, c),
                          norm(tensors, c), heads, before, held, level};
        for (const Run& batch : runs)
          for (float value : spoilt) run(layer, batch, value, threads);
      }
  for (int held = 0; held < 4; held++)
    for (int64_t rows : {0, 1, 2, 13, 400})
      if (shapes.can >> held & 1) multiply(shapes.forms[held], held, level, rows, threads);
  for (int64_t width : {1, 9, 64})
    for (int64_t rows : {1, 7, 100}) add(level, width, rows, threads);
}

}  // namespace

int main() {
  compiled_cores(nullptr, 0);
  for (int32_t level = 0; level < static_cast<int32_t>(std::size(LEVELS)); level++) {
    Shapes shapes;
    compiled_shapes(level, &shapes);
    if (!shapes.can) continue;
    for (int64_t threads : {1, 2, 4, 8}) every(level, threads);
    std::thread other([level] { every(level, 2); });  // two callers at once
    every(level, 3);
    other.join();
    const pid_t child = fork();  // has none of the threads
    if (child == 0) every(level, 2), _exit(0);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    std::printf("level %d\n", level);
  }
}
