// One whole decode step for Llama-like models with int8 weights, behind a plain C interface (see kernels.py).
#include "kernels_int8.h"
#include "kernels_team.h"

constexpr int TILE = 64;     // positions of the context that are attended to at a time
constexpr int QUERIES = 64;  // query heads that may share a KV head
constexpr int CUT = 64;      // outputs of a product that one thread takes at a time
constexpr int WIDEST = 256;  // head

extern "C" {
struct Layer {
    Linear q, k, v, o, gate, up, down;
    const float *attention_norm, *mlp_norm, *q_norm, *k_norm;  // the last two null where the model has none
    void *keys, *values;                                       // [slots, kv_heads, head_dim]
    int64_t window;                                            // positions a query sees; 0: all
};
struct Model {
    const Layer* layers;
    Linear head;
    const float *norm, *cos, *sin;  // tables: [positions, head_dim / 2]
    int32_t layer_count, hidden, heads, kv_heads, head_dim, inner, page_size, kv_bfloat16;
    int64_t positions, slots;  // rows of the tables, and of each layer's keys
    float epsilon, scaling;
};
struct Batch {
    float* x;  // [rows, hidden] embeddings in, residual stream during the step
    const int64_t *positions, *slots, *lengths;
    const int32_t* page_table;  // [rows, pages]
    const int64_t* outputs;     // [output_count]: rows whose logits are wanted
    float* logits;              // [output_count, vocabulary]
    int32_t rows, pages, output_count;
};
}

static float inverse_rms(const float* x, int width, float epsilon) {
    Floats squares = {};
    for (int i = 0; i < width; i += BLOCK) squares += at(x + i) * at(x + i);
    return 1 / std::sqrt(total(squares) / width + epsilon);
}

static void rotate(float* x, const float* cos, const float* sin, int half) {
    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cos[i] - b * sin[i], x[i + half] = b * cos[i] + a * sin[i];
    }
}

static uint16_t to_bfloat16(float x) {  // to nearest even
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return std::isnan(x) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void pool_write(const Model& m, void* pool, int64_t where, const float* x) {
    for (int i = 0; i < m.head_dim; i++)
        if (m.kv_bfloat16) ((uint16_t*)pool)[where + i] = to_bfloat16(x[i]);
        else ((float*)pool)[where + i] = x[i];
}

// Copies `count` heads of width D out of the pool.
static inline void pool_read(const Model& m, const void* pool, const int64_t* where, int count, int D, float* to) {
    for (int t = 0; t < count; t++, to += D)
        if (m.kv_bfloat16)
            for (int i = 0; i < D; i += BLOCK) at(to + i) = widen((const uint16_t*)pool + where[t] + i);
        else
            for (int i = 0; i < D; i += BLOCK) at(to + i) = at((const float*)pool + where[t] + i);
}

// Asks the cache for a head of some positions, a few at a time: all at once they would wait for each other.
struct Wanted {
    const char* pool;  // null: nothing is wanted
    const int64_t* where;
    int count, size, head_bytes;

    FETCH void fetch(int from, int to) const {
        for (int t = from; pool && t < std::min(to, count); t++)
            for (int i = 0; i < head_bytes; i += 64) __builtin_prefetch(pool + where[t] * size + i);
    }
};

struct Step {
    const Model& m;
    const Batch& b;
    int threads;
    int tiles, D = m.head_dim, group = m.heads / m.kv_heads;
    Rows input{b.rows, m.hidden}, context{b.rows, m.heads * D}, inner{b.rows, m.inner};
    Rows last{b.output_count, m.hidden};
    // What one chunk writes lies together: by head, by group of inner outputs, by tile.
    Buffer<float> qkv{(size_t)(m.heads + 2 * m.kv_heads) * b.rows * D};  // [heads + 2 kv_heads][rows][head_dim]
    Buffer<float> gate{(size_t)b.rows * m.inner}, up{(size_t)b.rows * m.inner};  // [inner/32][rows][32]
    Buffer<float> joined{(size_t)b.rows * m.heads * D};                          // [rows][heads][head_dim]
    Buffer<float> partial;  // [rows][tiles][heads][head_dim + 16]: values, maximum, sum, nothing

    Step(const Model& model, const Batch& batch, int threads)
        : m(model), b(batch), threads(threads),
          tiles((int)((*std::max_element(b.lengths, b.lengths + b.rows) + TILE - 1) / TILE)),
          partial((size_t)b.rows * tiles * m.heads * (D + BLOCK)) {}

    float* head_at(int head, int row) { return qkv.at(((size_t)head * b.rows + row) * D); }
    float* partial_at(int row, int tile, int head) {
        return partial.at((((size_t)row * tiles + tile) * m.heads + head) * (D + BLOCK));
    }
    void normalise(int row, const float* weight, Rows& to, int place) {
        const float* x = b.x + (size_t)row * m.hidden;
        const float inverse = inverse_rms(x, m.hidden, m.epsilon);
        float y[GROUP];
        for (int g = 0; g < m.hidden / GROUP; g++) {
            for (int i = 0; i < GROUP; i += BLOCK)
                at(y + i) = at(x + g * GROUP + i) * inverse * at(weight + g * GROUP + i);
            to.put(place, g, y);
        }
    }
    // One head of queries, keys or values: product, norm, rotation, and for the latter two the write to the pool.
    void project(const Layer& l, int head) {
        const int kind = head < m.heads ? 0 : head < m.heads + m.kv_heads ? 1 : 2;
        const Linear& w = kind == 0 ? l.q : kind == 1 ? l.k : l.v;
        const int own = head - (kind == 0 ? 0 : kind == 1 ? m.heads : m.heads + m.kv_heads);
        product<false>(w, input, own * D, D, head_at(head, 0) - own * D, D, block_of(w, (own + threads) * D));
        for (int row = 0; row < b.rows; row++) {
            float* x = head_at(head, row);
            if (const float* norm = kind == 0 ? l.q_norm : kind == 1 ? l.k_norm : nullptr) {
                const float inverse = inverse_rms(x, D, m.epsilon);
                for (int i = 0; i < D; i += BLOCK) at(x + i) = at(x + i) * inverse * at(norm + i);
            }
            const int64_t angle = b.positions[row] * (D / 2);
            if (kind != 2) rotate(x, m.cos + angle, m.sin + angle, D / 2);
            if (kind != 0) pool_write(m, kind == 1 ? l.keys : l.values, (b.slots[row] * m.kv_heads + own) * D, x);
        }
    }
    // Places in the pool of the positions of a tile that are attended to; returns how many.
    int find(const Layer& l, int row, int number, int64_t* where) const {
        const int64_t length = b.lengths[row], seen = l.window ? std::max<int64_t>(0, length - l.window) : 0;
        const int first = (int)std::max<int64_t>(seen, (int64_t)number * TILE);
        const int end = (int)std::min<int64_t>(length, (int64_t)(number + 1) * TILE);
        const int32_t* table = b.page_table + (size_t)row * b.pages;
        for (int p = first, page = p / m.page_size, offset = p % m.page_size; p < end; p++) {
            where[p - first] = ((int64_t)table[page] * m.page_size + offset) * m.kv_heads * m.head_dim;
            if (++offset == m.page_size) offset = 0, page++;
        }
        return std::max(0, end - first);
    }
    // All queries of one row over one tile of its context. Tiles stand at fixed positions, so that what they add up
    // to does not depend on the batch. `Width` is head_dim where it is known when compiling, or 0.
    template <int Width> void attend(const Layer& l, int item) {
        const int D = Width ? Width : m.head_dim, row = item / tiles, number = item % tiles;
        int64_t where[TILE];
        const int count = find(l, row, number, where);
        for (int head = 0; head < m.heads; head++) partial_at(row, number, head)[D + 1] = 0;
        float tile[TILE * (Width ? Width : WIDEST)], weights[QUERIES * TILE];
        for (int kv = 0; kv < m.kv_heads && count > 0; kv++) {
            const int size = m.kv_bfloat16 ? 2 : 4;
            const Wanted values{(const char*)l.values, where, count, size, D * size};
            const Wanted keys{kv + 1 < m.kv_heads ? (const char*)l.keys : nullptr, where, count, size, D * size};
            pool_read(m, l.keys, where, count, D, tile);
            for (int g = 0; g < group; g++) {
                const int head = kv * group + g;
                float* sums = partial_at(row, number, head) + D;
                score(head_at(head, row), tile, count, D, weights + g * TILE, sums, values, g);
            }
            pool_read(m, l.values, where, count, D, tile);
            for (int t = 0; t < count; t++) where[t] += D;
            for (int g = 0; g < group; g++) {
                float* out = partial_at(row, number, kv * group + g);
                keys.fetch(TILE * g / group, TILE * (g + 1) / group);
                int i = 0;
                for (; i + 4 * BLOCK <= D; i += 4 * BLOCK) mix<4>(weights + g * TILE, tile + i, count, D, out + i);
                for (; i < D; i += BLOCK) mix<1>(weights + g * TILE, tile + i, count, D, out + i);
            }
        }
    }
    // weights = exp(q k - maximum) of `count` keys; `out` gets the maximum and the sum of the weights.
    // Meanwhile the g-th part of what is wanted next is asked for.
    inline void score(
        const float* q, const float* keys, int count, int D, float* weights, float* out, const Wanted& wanted,
        int g) const {
        Floats scores[TILE / BLOCK], top = Floats{} - INFINITY, sum = {};
        const int parts = (count + BLOCK - 1) / BLOCK;
        for (int n = 0; n < parts; n++) {
            Floats rows[BLOCK] = {};
            wanted.fetch(n * BLOCK + BLOCK * g / group, n * BLOCK + BLOCK * (g + 1) / group);
            for (int i = 0; i < D; i += BLOCK) {
                const float* from = keys + (size_t)n * BLOCK * D + i;
#pragma GCC unroll 16
                for (int t = 0; t < BLOCK; t++) rows[t] += at(q + i) * at(from + t * D);
            }
            scores[n] = LANE < count - n * BLOCK ? sum_lanes<8>(rows) * m.scaling : Floats{} - INFINITY;
            top = larger(top, scores[n]);
        }
        out[0] = highest(top);
        for (int n = 0; n < parts; n++) sum += at(weights + n * BLOCK) = exponential(scores[n] - out[0]);
        out[1] = total(sum);
    }
    template <int V> static inline void mix(const float* weights, const float* values, int count, int D, float* out) {
        Floats even[V] = {}, odd[V] = {};  // two chains: one would wait for itself
        int t = 0;
        for (; t + 1 < count; t += 2)
            for (int v = 0; v < V; v++) {
                even[v] += weights[t] * at(values + t * D + v * BLOCK);
                odd[v] += weights[t + 1] * at(values + (t + 1) * D + v * BLOCK);
            }
        for (int v = 0; v < V; v++) {
            if (t < count) even[v] += weights[t] * at(values + t * D + v * BLOCK);
            at(out + v * BLOCK) = even[v] + odd[v];
        }
    }
    void gather(int row) {  // joins the tiles of each head
        const int used = (int)((b.lengths[row] + TILE - 1) / TILE);
        float* y = joined.at((size_t)row * m.heads * D);
        for (int head = 0; head < m.heads; head++, y += D) {
            float top = -INFINITY, sum = 0;
            for (int n = 0; n < used; n++)
                if (const float* part = partial_at(row, n, head); part[D + 1] > 0) top = std::max(top, part[D]);
            std::fill(y, y + D, 0.0f);
            for (int n = 0; n < used; n++) {
                const float* part = partial_at(row, n, head);
                if (part[D + 1] == 0) continue;
                const float factor = exponential(part[D] - top);
                sum += factor * part[D + 1];
                for (int i = 0; i < D; i += BLOCK) at(y + i) += factor * at(part + i);
            }
            for (int i = 0; i < D; i += BLOCK) at(y + i) /= sum;
        }
        y = joined.at((size_t)row * m.heads * D);
        for (int g = 0; g < m.heads * D / GROUP; g++) context.put(row, g, y + g * GROUP);
    }
    void activate(const Layer& l, int g) {  // silu(gate) * up for one group of inner outputs
        const int first = g * GROUP;
        float *x = gate.at((size_t)first * b.rows), *u = up.at((size_t)first * b.rows), y[GROUP];
        product<false>(l.gate, input, first, GROUP, x - first, GROUP, block_of(l.up, first));
        product<false>(l.up, input, first, GROUP, u - first, GROUP, block_of(l.gate, first + threads * GROUP));
        for (int row = 0; row < b.rows; row++, x += GROUP, u += GROUP) {
            for (int i = 0; i < GROUP; i += BLOCK) at(y + i) = at(x + i) / (1.0f + exponential(-at(x + i))) * at(u + i);
            inner.put(row, g, y);
        }
    }
    void operator()(Team& team) {
        Walk walk{team};
        auto each_row = [&](int rows, auto work) {  // by panels: two threads in one cache line cost more than they save
            walk.stage(Rows::panels(rows), [&](int panel) {
                for (int row = panel * PANEL; row < Rows::end(panel, rows); row++) work(row);
            });
        };
        auto add = [&](const Linear& w, const Rows& x) {  // to the residual stream
            walk.stage((m.hidden + CUT - 1) / CUT, [&](int c) {
                product<true>(w, x, c * CUT, CUT, b.x, m.hidden, block_of(w, (c + threads) * CUT));
            });
        };
        for (int i = 0; i < m.layer_count; i++) {
            const Layer& l = m.layers[i];
            each_row(b.rows, [&](int row) { normalise(row, l.attention_norm, input, row); });
            walk.stage(m.heads + 2 * m.kv_heads, [&](int head) { project(l, head); });
            walk.stage(b.rows * tiles, [&](int item) {
                D == 64 ? attend<64>(l, item) : D == 128 ? attend<128>(l, item) : attend<0>(l, item);
            });
            each_row(b.rows, [&](int row) { gather(row); });
            add(l.o, context);
            each_row(b.rows, [&](int row) { normalise(row, l.mlp_norm, input, row); });
            walk.stage(m.inner / GROUP, [&](int g) { activate(l, g); });
            add(l.down, inner);
        }
        each_row(b.output_count, [&](int i) { normalise((int)b.outputs[i], m.norm, last, i); });
        walk.stage((m.head.n + CUT - 1) / CUT, [&](int c) {
            product<false>(m.head, last, c * CUT, CUT, b.logits, m.head.n, block_of(m.head, (c + threads) * CUT));
        });
        walk.wait();
    }
};

static Team& team = *new Team;  // never destroyed: helpers may sleep in it when the process ends

extern "C" {
// Returns 0, or 1 + the first row that reaches outside the pool or the tables; then nothing was written.
int cutaway_step(const Model* model, const Batch* batch, int threads) {
    const Batch& b = *batch;
    for (int row = 0; row < b.rows; row++) {
        const int64_t pages = (b.lengths[row] + model->page_size - 1) / model->page_size;
        bool good = b.lengths[row] > 0 && pages <= b.pages && b.positions[row] >= 0;
        good = good && b.positions[row] < model->positions && b.slots[row] >= 0 && b.slots[row] < model->slots;
        for (int64_t p = 0; good && p < pages; p++) {
            const int64_t page = b.page_table[(size_t)row * b.pages + p];
            good = page >= 0 && (page + 1) * model->page_size <= model->slots;
        }
        if (!good) return row + 1;
    }
    for (int i = 0; i < b.output_count; i++)
        if (b.outputs[i] < 0 || b.outputs[i] >= b.rows) return b.rows + 1;
    Step step(*model, b, threads);
    team.run(threads, step);
    return 0;
}

// Fills data and scales of `to` from float32 weights [n, k].
void cutaway_pack(const Linear* to, const float* weights, int threads) {
    auto job = [&](Team& team) {
        Walk walk{team};
        walk.stage((to->n + BLOCK - 1) / BLOCK, [&](int block) { pack(*to, block, weights); });
        walk.wait();
    };
    team.run(threads, job);
}

void cutaway_linear(const Linear* w, const float* x, float* y, int64_t rows, int threads) {
    Rows input((int)rows, w->k);
    auto job = [&](Team& team) {
        Walk walk{team};
        walk.stage(Rows::panels((int)rows), [&](int panel) {
            for (int row = panel * PANEL; row < Rows::end(panel, (int)rows); row++)
                for (int g = 0; g < w->k / GROUP; g++) input.put(row, g, x + (size_t)row * w->k + g * GROUP);
        });
        walk.stage((w->n + CUT - 1) / CUT, [&](int c) {
            product<false>(*w, input, c * CUT, CUT, y, w->n, block_of(*w, (c + threads) * CUT));
        });
        walk.wait();
    };
    team.run(threads, job);
}

const char* cutaway_instructions() {
#if defined(__AVX512VNNI__)
    return "AVX512-VNNI";
#elif defined(__AVXVNNI__)
    return "AVX-VNNI";
#elif defined(__AVX2__)
    return "AVX2";
#else
    return "plain C++";
#endif
}
void cutaway_plain(int on) { plain_only = on != 0; }
}
