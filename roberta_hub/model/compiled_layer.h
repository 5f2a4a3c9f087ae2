// A Transformer layer on packed rows in one call, in others what the first one reads and a product.
//
// Written once over the vectors of a level (compiled_avx512.h, compiled_avx2.h), inside whose
// namespace compiled.cpp includes it. Its plain twins are layer.py and embeddings.py. Few rows
// wait for the weights alone. Legend: N rows, C width, F inner width, T tokens of a sequence, D
// width of a head.

constexpr int64_t CHUNK = 384;  // rows that go through several products while a cache holds them

// 2^n e^r with |r| <= ln 2 / 2 and the polynomial of Cephes' expf. What is no number stays so.
Vector exponential(Vector x) {
  x = larger(all(-87.3f), smaller(all(88.0f), x));
  const Vector n = nearest(x * all(1.44269504f));
  Vector r = fnma(n, all(0.693359375f), x);
  r = fnma(n, all(-2.12194440e-4f), r);
  Vector p = all(1.9875691500e-4f);
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                  5.0000001201e-1f})
    p = fma(p, r, all(c));
  return times_power_of_2(fma(r * r, p, r + all(1.0f)), n);
}

// x (1 + erf(x / sqrt 2)) / 2, with erf to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
Vector gelu(Vector x) {
  const Vector one = all(1.0f);
  const Vector z = absolute(x) * all(0.70710678f);
  const Vector t = one / fma(z, all(0.3275911f), one);
  Vector p = all(1.061405429f);
  for (float c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
    p = fma(p, t, all(c));
  const Vector bell = exponential(all(0.0f) - z * z);
  const Vector rest = p * t * bell;  // 1 - erf(z)
  const Vector part = x * all(0.5f) * rest;
  return where_negative(x, part, x - part);
}

// Inputs in even blocks of whole steps; the last one may end in zeros.
struct Blocks {
  int64_t count, inputs;
};

template <class Form>
Blocks blocks_of(int64_t inputs) {
  const int64_t count = up(inputs, Form::BLOCK) / Form::BLOCK;
  return {count, up(up(inputs, count) / count, Form::EACH * Form::GROUP)};
}

struct Outputs {
  const Matrix& matrix;
  const float* residual;  // (N, outputs) or null
  bool activate;
  float* y;  // (N, stride)
  int64_t stride;
};

Vector value(Vector sum, const Rows&, const Matrix& m, int64_t, int64_t column) {
  const Vector bias = load(m.bias + column);
  return m.scale ? fma(sum, load(m.scale + column), bias) : sum + bias;
}

Vector value(Whole sum, const Rows& x, const Matrix& m, int64_t n, int64_t column) {
  const Vector scale = load(m.scale + column);
  const Vector z = fma(floats(sum) * scale, all(x.steps[n]), load(m.bias + column));
  return fma(all(x.lows[n]), load(m.sums + column) * scale, z);
}

// Makes results of a tile's sums, (count, PARTS), from row n and `column` on.
template <int64_t PARTS, class Register>
__attribute__((noinline)) void finish(const Register* sums, int64_t count, const Rows& x, int64_t n,
                                      int64_t column, const Outputs& out) {
  const int64_t width = out.matrix.outputs;
  for (int64_t part = 0, at = column; part < PARTS && at < width; part++, at += WIDE) {
    const Lanes there = lanes(width - at);
    for (int64_t i = 0; i < count; i++) {
      const int64_t place = (n + i) * width + at;
      Vector y = value(sums[PARTS * i + part], x, out.matrix, n + i, at);
      if (out.activate) y = gelu(y);
      if (out.residual) y = y + load(out.residual + place, there);
      store(out.y + (n + i) * out.stride + at, y, there);
    }
  }
}

// Multiplies M rows from row n on by a panel, and fetches at each step what lies `ahead`, to be
// read later: `pace` bytes further on than the step before.
template <class Form, bool FETCH, int M>
void tile(const Rows& x, int64_t n, const char* panel, int64_t steps, const char* ahead,
          int64_t pace, int64_t column, const Outputs& out) {
  constexpr int64_t PARTS = Form::PARTS;
  typename Form::Register own[PARTS][M] = {};
  for (int64_t k = 0; k < steps; k++) {
    decltype(Form::weight(panel)) weights[PARTS];
#pragma GCC unroll 12
    for (int p = 0; p < PARTS; p++) weights[p] = Form::weight(panel + p * Form::VECTOR);
    if (FETCH) {
      for (int64_t line = 0; line < PARTS * Form::VECTOR; line += 64)
        _mm_prefetch(ahead + line, NEAR);
      ahead += pace;
    }
    panel += PARTS * Form::VECTOR;
#pragma GCC unroll 12
    for (int i = 0; i < M; i++) {
      const auto row = Form::row(x, n + i, k);
#pragma GCC unroll 12
      for (int p = 0; p < PARTS; p++) own[p][i] = Form::add(own[p][i], row, weights[p]);
    }
  }
  typename Form::Register sums[PARTS * M];
#pragma GCC unroll 12
  for (int i = 0; i < M; i++)
#pragma GCC unroll 12
    for (int p = 0; p < PARTS; p++) sums[PARTS * i + p] = own[p][i];
  finish<PARTS>(sums, M, x, n, column, out);
}

// The same of bytes, whose steps are those of a block of a row's inputs.
template <class Form, bool FETCH, int M>
void tile_of_blocks(const Rows& x, int64_t n, const char* panel, int64_t, const char* ahead,
                    int64_t pace, int64_t column, const Outputs& out) {
  const Blocks blocks = blocks_of<Form>(out.matrix.inputs);
  const float* weight_sums = out.matrix.sums + column * blocks.count;  // (panels, blocks, WIDE)
  Vector sums[M] = {};
  for (int64_t b = 0; b < blocks.count; b++) {
    const uint8_t* bytes = x.bytes + n * x.stride + b * blocks.inputs;
    Whole own[M] = {};
    for (int64_t k = 0; k < blocks.inputs; k += Form::EACH * Form::GROUP) {
      const auto weights = Form::weights(panel);
      if (FETCH) {
        for (int64_t line = 0; line < Form::VECTOR; line += 64) _mm_prefetch(ahead + line, NEAR);
        ahead += pace;
      }
      panel += Form::VECTOR;
#pragma GCC unroll 12
      for (int i = 0; i < M; i++) own[i] = Form::add(own[i], bytes + i * x.stride + k, weights);
    }
    const Vector sum = load(weight_sums + b * WIDE);
#pragma GCC unroll 12
    for (int i = 0; i < M; i++) {
      const int64_t place = (n + i) * x.blocks + b;
      sums[i] = fma(floats(own[i]), all(x.steps[place]), sums[i]);
      sums[i] = fma(all(x.lows[place]), sum, sums[i]);
    }
  }
  finish<1>(sums, M, x, n, column, out);
}

using Tile = void (*)(const Rows&, int64_t, const char*, int64_t, const char*, int64_t, int64_t,
                      const Outputs&);

template <class Form, bool FETCH, int... M>  // of 1 row, of 2 and so on
constexpr std::array<Tile, Form::TILE> tiles(std::integer_sequence<int, M...>) {
  if constexpr (Form::GROUP > 1) return {tile_of_blocks<Form, FETCH, M + 1>...};
  else return {tile<Form, FETCH, M + 1>...};
}

template <class Form, bool FETCH>
constexpr auto TILES = tiles<Form, FETCH>(std::make_integer_sequence<int, Form::TILE>());

template <class Form>
void product(Member& member, const Rows& x, int64_t rows, const Outputs& out) {
  const bool fetch = rows <= FEW && fetches(Form::VECTOR);
  const auto& tiles = fetch ? TILES<Form, true> : TILES<Form, false>;
  const Matrix& m = out.matrix;
  constexpr int64_t PARTS = Form::PARTS, PANEL = PARTS * WIDE;  // outputs of a panel
  const int64_t panels = up(m.outputs, PANEL) / PANEL;
  const Blocks all = blocks_of<Form>(m.inputs);
  const int64_t steps = all.count * all.inputs / (Form::EACH * Form::GROUP);
  const int64_t size = steps * PARTS * Form::VECTOR;
  const int64_t blocks = up(rows, Form::TILE) / Form::TILE;  // of even sizes
  // Panels that a tile's rows meet in turn, while the nearest cache holds the rows.
  const int64_t groups = up(panels, Form::TOGETHER) / Form::TOGETHER;
  const int64_t parts = std::min(blocks, up(4 * member.count, groups) / groups);
  member.share(groups * parts, [&](int64_t first, int64_t last) {
    for (int64_t job = first; job < last; job++) {
      const int64_t group = job / parts, part = job % parts;
      const int64_t from = panels * group / groups, to = panels * (group + 1) / groups;
      const int64_t begin = blocks * part / parts, end = blocks * (part + 1) / parts;
      for (int64_t b = begin; b < end; b++) {
        const int64_t n = rows * b / blocks, count = rows * (b + 1) / blocks - n;
        for (int64_t p = from; p < to; p++) {
          const char* panel = static_cast<const char*>(m.weight) + p * size;
          // Either the same panel's bytes soon, or with each tile a share of a panel after these.
          const char* const ahead =
              AHEAD ? panel + AHEAD
                    : panel + (to - from) * size + size * (b - begin) / (end - begin);
          const int64_t pace = PARTS * Form::VECTOR / (AHEAD ? 1 : end - begin);
          tiles[count - 1](x, n, panel, steps, ahead, pace, p * PANEL, out);
        }
      }
    }
  });
}

void normalize(const float* x, int64_t width, const Norm& norm, float* y) {
  Vector total = all(0.0f), squares = total;
  for (int64_t k = 0; k < width; k += WIDE) total = total + load(x + k, lanes(width - k));
  const float count = static_cast<float>(width);
  const Vector mean = all(sum(total) / count);
  for (int64_t k = 0; k < width; k += WIDE) {
    const Lanes there = lanes(width - k);
    const Vector v = choose(there, load(x + k, there) - mean, all(0.0f));
    squares = fma(v, v, squares);
  }
  const float variance = sum(squares) / count;
  const Vector scale = all(1.0f / std::sqrt(variance + norm.eps));
  for (int64_t k = 0; k < width; k += WIDE) {
    const Lanes there = lanes(width - k);
    const Vector v = (load(x + k, there) - mean) * scale;
    store(y + k, fma(v, load(norm.weight + k, there), load(norm.bias + k, there)), there);
  }
}

// One head of one sequence. Queries, and the keys and values of T tokens, lie `stride` apart.
void attend(const float* query, int64_t queries, const float* key, const float* value,
            int64_t tokens, int64_t width, int64_t stride, float* mixed, int64_t mixed_stride,
            float* space) {
  const int64_t wide = up(tokens, WIDE);
  float* turned = space;                  // keys, (D, T)
  float* weights = space + width * wide;  // (QUERIES, T)
  for (int64_t begin = 0; begin < wide; begin += WIDE)  // so many rows stay in the cache
    for (int64_t d = 0; d < width; d++)
      for (int64_t t = begin; t < begin + WIDE; t++)
        turned[d * wide + t] = t < tokens ? key[t * stride + d] : 0.0f;
  const Vector scale = all(1.0f / std::sqrt(static_cast<float>(width)));
  const Vector nothing = all(-INFINITY);
  for (int64_t i = 0; i < queries; i += QUERIES) {
    const float* q[QUERIES];
    Vector shares[QUERIES];
    for (int64_t j = 0; j < QUERIES; j++) q[j] = query + std::min(i + j, queries - 1) * stride;
    for (int64_t t = 0; t < wide; t += WIDE) {
      Vector sums[QUERIES] = {};
      for (int64_t d = 0; d < width; d++)
#pragma GCC unroll 8
        for (int64_t j = 0; j < QUERIES; j++)
          sums[j] = fma(all(q[j][d]), load(turned + d * wide + t), sums[j]);
#pragma GCC unroll 8
      for (int64_t j = 0; j < QUERIES; j++)
        store(weights + j * wide + t, choose(lanes(tokens - t), sums[j] * scale, nothing));
    }
    for (int64_t j = 0; j < QUERIES; j++) {  // softmax
      float* own = weights + j * wide;
      Vector most = nothing, total = all(0.0f);
      for (int64_t t = 0; t < wide; t += WIDE) most = larger(most, load(own + t));
      const Vector top = all(largest(most));
      for (int64_t t = 0; t < wide; t += WIDE) {
        const Vector e = exponential(load(own + t) - top);
        total = total + choose(lanes(tokens - t), e, all(0.0f));
        store(own + t, e);
      }
      shares[j] = all(1.0f / sum(total));
    }
    for (int64_t d = 0; d < width; d += WIDE) {
      const Lanes there = lanes(width - d);
      Vector sums[QUERIES] = {};
      for (int64_t t = 0; t < tokens; t++) {
        const Vector v = load(value + t * stride + d, there);
#pragma GCC unroll 8
        for (int64_t j = 0; j < QUERIES; j++) sums[j] = fma(all(weights[j * wide + t]), v, sums[j]);
      }
#pragma GCC unroll 8
      for (int64_t j = 0; j < QUERIES; j++)
        if (i + j < queries)
          store(mixed + (i + j) * mixed_stride + d, sums[j] * shares[j], there);
    }
  }
}

int64_t chunks(int64_t rows) { return up(rows, CHUNK) / CHUNK; }

template <class Some>  // some(first, count) of the rows
void in_chunks(int64_t rows, const Some& some) {
  for (int64_t i = 0; i < chunks(rows); i++)
    some(rows * i / chunks(rows), rows * (i + 1) / chunks(rows) - rows * i / chunks(rows));
}

// How rows of so many inputs are held for a product: bytes, and blocks with a step each.
struct RowShape {
  int64_t bytes, blocks;
};

template <class Form>
RowShape row_shape(int64_t inputs) {
  const Blocks all = blocks_of<Form>(inputs);
  return {up(all.count * all.inputs, 64) * Form::ROW_BYTES, all.count};
}

RowShape row_shape(int64_t held, int64_t inputs) {
  if (held == INT8) return row_shape<Int8>(inputs);
  return held == BFLOAT16 ? row_shape<BFloat16>(inputs) : row_shape<Float32>(inputs);
}

// Where a call's intermediate results lie, in floats from `at` on.
struct Space {
  Stage* stages = nullptr;
  int64_t stage_count = 0, total = 0;
  explicit Space(float* at) : begin_(at), at_(at) {}

 protected:
  float* take(int64_t count) { return (at_ += up(count, LINE)) - up(count, LINE); }
  void take_stages(int64_t count) {
    stage_count = count;
    stages = reinterpret_cast<Stage*>(take(count * sizeof(Stage) / sizeof(float)));
  }
  void end() { total = at_ - begin_; }

 private:
  float* const begin_;
  float* at_;
};

struct RowSpace : Space {  // rows as a product reads them, where those are not floats
  float *steps, *lows;
  uint8_t* bytes;
  int64_t stride;
  using Space::Space;

 protected:
  void take_rows(int64_t rows, int64_t inputs, int64_t held) {
    const RowShape row = row_shape(held, inputs);
    steps = take(rows * row.blocks), lows = take(rows * row.blocks);
    stride = row.bytes + 64;
    bytes = reinterpret_cast<uint8_t*>(take(rows * stride / 4));
  }
};

struct LayerSpace : RowSpace {
  float *projected, *mixed, *kept, *summed, *normed, *inner, *heads;
  int64_t wide, head;
  LayerSpace(const Layer& layer, const Batch& batch, int64_t threads, float* at) : RowSpace(at) {
    const int64_t c = layer.mix.outputs, f = layer.widen.outputs, n = batch.rows;
    const int64_t some = std::min(n, CHUNK);
    take_stages(2 * chunks(n) + 1 + 7 * chunks(batch.asked ? batch.sequences : n));
    projected = take(n * 3 * c);  // queries, keys and values
    mixed = take(n * c), kept = take(n * c);
    summed = take(some * c), normed = take(some * c);
    // A cache line more, so that the rows of a tile do not all lie in one set of the cache.
    wide = up(f, LINE) + LINE;
    inner = take(some * wide);
    take_rows(some, std::max(c, f), layer.held);
    head = up((c / layer.heads + QUERIES) * up(batch.longest, WIDE), LINE);
    heads = take(head * threads);
    end();
  }
};

struct ProductSpace : RowSpace {
  ProductSpace(const Product& product, int64_t rows, float* at) : RowSpace(at) {
    take_stages(2 * chunks(rows));
    take_rows(std::min(rows, CHUNK), product.matrix.inputs, product.held);
    end();
  }
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
  const LayerSpace& space;
};

// Rows that a product reads: those of x, or these normalized.
struct Input {
  const float* x;  // (N, stride)
  int64_t stride;
  const Norm* norm;  // or null
  float* normed;     // (N, inputs)
};

// Multiplies n rows by a matrix.
template <class Form>
void multiply(Member& member, const RowSpace& space, const Input& in, int64_t n, const Outputs& out) {
  const int64_t width = out.matrix.inputs;
  const float* x = in.norm ? in.normed : in.x;
  const int64_t stride = in.norm ? width : in.stride;
  const Blocks all = blocks_of<Form>(width);
  if (in.norm || Form::ROW_BYTES)
    member.share(n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i++) {
        if (in.norm) normalize(in.x + i * in.stride, width, *in.norm, in.normed + i * width);
        if constexpr (Form::ROW_BYTES > 0)
          for (int64_t b = 0, at = 0; b < all.count; b++, at += all.inputs)
            Form::shorten(x + i * stride + at, std::min(all.inputs, width - at),
                          space.bytes + i * space.stride + at * Form::ROW_BYTES,
                          space.steps + i * all.count + b, space.lows + i * all.count + b);
      }
    });
  const Rows floats{x, nullptr, nullptr, nullptr, stride, 1};
  const Rows bytes{nullptr, space.bytes, space.steps, space.lows, space.stride, all.count};
  product<Form>(member, Form::ROW_BYTES ? bytes : floats, n, out);
}

using Multiply = void (*)(Member&, const RowSpace&, const Input&, int64_t, const Outputs&);
constexpr Multiply MULTIPLY[] = {multiply<Float32>, multiply<Float16>, multiply<Int8>,
                                 multiply<BFloat16>};  // as HELD of compiled.py

void compute_layer(const Call& any, Member member) {
  const LayerCall& call = static_cast<const LayerCall&>(any);
  const Layer& layer = call.layer;
  const Batch& batch = call.batch;
  const LayerSpace& space = call.space;
  const int64_t c = layer.mix.outputs, d = c / layer.heads;
  const bool before = layer.normalize_before;
  const Multiply multiply = MULTIPLY[layer.held];

  in_chunks(batch.rows, [&](int64_t from, int64_t n) {
    const Input x{call.x + from * c, c, before ? &layer.attention_norm : nullptr, space.normed};
    multiply(member, space, x, n,
                   {layer.query_key_value, nullptr, false, space.projected + from * 3 * c, 3 * c});
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
    multiply(member, space, {space.mixed + from * c, c, nullptr, nullptr}, n,
             {layer.mix, kept + from * c, false, space.summed, c});
    const Norm& norm = before ? layer.final_norm : layer.attention_norm;
    multiply(member, space, {space.summed, c, &norm, space.normed}, n,
             {layer.widen, nullptr, true, space.inner, space.wide});
    const float* residual = before ? space.summed : space.normed;
    multiply(member, space, {space.inner, space.wide, nullptr, nullptr}, n,
             {layer.narrow, residual, false, before ? y : space.summed, c});
    if (before) return;
    member.share(n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i++)
        normalize(space.summed + i * c, c, layer.final_norm, y + i * c);
    });
  });
}

struct ProductCall : Call {
  const Product& product;
  int64_t rows;
  const float *x, *residual;  // (N, inputs); (N, outputs) or null
  float* y;                   // (N, outputs)
  const ProductSpace& space;
};

void compute_product(const Call& any, Member member) {
  const ProductCall& call = static_cast<const ProductCall&>(any);
  const Matrix& matrix = call.product.matrix;
  const int64_t outputs = matrix.outputs;
  in_chunks(call.rows, [&](int64_t from, int64_t n) {
    const float* residual = call.residual ? call.residual + from * outputs : nullptr;
    MULTIPLY[call.product.held](
        member, call.space, {call.x + from * matrix.inputs, matrix.inputs, nullptr, nullptr}, n,
        {matrix, residual, call.product.activate != 0, call.y + from * outputs, outputs});
  });
}

int64_t layer_space(const Layer& layer, const Batch& batch, int64_t threads) {
  return LayerSpace(layer, batch, threads, nullptr).total;
}

int64_t product_space(const Product& product, int64_t rows) {
  return ProductSpace(product, rows, nullptr).total;
}

void make_stages(const Space& space) {
  for (int64_t i = 0; i < space.stage_count; i++) new (space.stages + i) Stage;
}

void run_layer(const Layer& layer, const Batch& batch, const float* x, float* y, float* space,
               int64_t threads) {
  const LayerSpace own(layer, batch, threads, space);
  make_stages(own);
  LayerCall call{{compute_layer, own.stages, threads}, layer, batch, x, y, own};
  pool->run(call);
}

void run_product(const Product& product, int64_t rows, const float* x, const float* residual,
                 float* y, float* space, int64_t threads) {
  const ProductSpace own(product, rows, space);
  make_stages(own);
  ProductCall call{{compute_product, own.stages, threads}, product, rows, x, residual, y, own};
  pool->run(call);
}

int run_sum(const Sum& sum, int64_t rows, float* y, int64_t threads) {
  Stage stage;
  std::atomic<bool> lacking{false};
  SumCall call{{add_rows, &stage, threads}, sum, rows, y, &lacking};
  pool->run(call);
  return lacking;
}

template <class Form>
constexpr FormShape SHAPE{Form::PARTS * WIDE, Form::TILE,  Form::EACH,
                          Form::EACH * Form::GROUP, Form::BLOCK, Form::MOST};

constexpr Level LEVEL{
    {SHAPE<Float32>, SHAPE<Float16>, SHAPE<Int8>, SHAPE<BFloat16>},
    layer_space,
    run_layer,
    product_space,
    run_product,
    run_sum};
