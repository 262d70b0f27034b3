// One decode step of a Llama-like model with int8 weights, as a job: its stages, and the memory they share.
#pragma once
#include <vector>
#include "kernels_model.h"
#include "kernels_team.h"

constexpr int CUT = 64;  // outputs of a product that one thread takes at a time

struct Step : Job {
    Model m;
    int rows, pages, outputs, threads, tiles, D, group;
    // The batch, copied: a late helper may read it after the caller has freed it.
    std::vector<int64_t> positions, slots, lengths, wanted;
    std::vector<int32_t> table;
    std::vector<int> starts;  // of the runs of rows that attend to the same pages (a prompt's); and the end
    float* logits;            // [outputs, vocabulary]: written to only when results are given away
    Rows input, context, inner, last;
    Buffer<float> x;  // [rows, hidden]: embeddings, and then the residual stream
    // What one chunk writes lies together: by head, by tile.
    Buffer<float> qkv;      // [heads + 2 kv_heads][rows][head_dim]
    Buffer<float> partial;  // [rows][tiles][heads][head_dim + 16]: values, maximum, sum, nothing

    void prepare(const Model& model, const Batch& b, int count) {
        m = model, rows = b.rows, pages = b.pages, outputs = b.output_count, threads = count, logits = b.logits;
        D = m.head_dim, group = m.heads / m.kv_heads;
        positions.assign(b.positions, b.positions + rows), slots.assign(b.slots, b.slots + rows);
        lengths.assign(b.lengths, b.lengths + rows), wanted.assign(b.outputs, b.outputs + outputs);
        table.assign(b.page_table, b.page_table + (size_t)rows * pages);
        tiles = (int)((*std::max_element(lengths.begin(), lengths.end()) + TILE - 1) / TILE);
        input.shape(rows, m.hidden), context.shape(rows, m.heads * D), inner.shape(rows, m.inner);
        last.shape(outputs, m.hidden);
        x.need((size_t)rows * m.hidden), qkv.need((size_t)(m.heads + 2 * m.kv_heads) * rows * D);
        partial.need((size_t)rows * tiles * m.heads * (D + BLOCK));
        for (int row = 0; row < rows; row++)
            std::copy_n(m.embedding + (size_t)b.ids[row] * m.hidden, m.hidden, x.at((size_t)row * m.hidden));
        starts.clear();
        for (int row = 0; row < rows; row++) {
            const bool room = row && row - starts.back() < std::min(RUN, QUERIES / group);
            if (!room || !same_pages(row - 1, row)) starts.push_back(row);
        }
        starts.push_back(rows);
    }
    bool same_pages(int one, int other) const {
        const int64_t shared = (std::min(lengths[one], lengths[other]) + m.page_size - 1) / m.page_size;
        const auto first = table.begin() + (size_t)one * pages;
        return std::equal(first, first + shared, table.begin() + (size_t)other * pages);
    }

    float* head_at(int head, int row) { return qkv.at(((size_t)head * rows + row) * D); }
    float* partial_at(int row, int tile, int head) {
        return partial.at((((size_t)row * tiles + tile) * m.heads + head) * (D + BLOCK));
    }
    void normalise(int row, const float* weight, Rows& to, int place) {
        const float* from = x.at((size_t)row * m.hidden);
        const float inverse = inverse_rms(from, m.hidden, m.epsilon);
        float y[GROUP];
        for (int g = 0; g < m.hidden / GROUP; g++) {
            for (int i = 0; i < GROUP; i += BLOCK)
                at(y + i) = at(from + g * GROUP + i) * inverse * at(weight + g * GROUP + i);
            to.put(place, g, y);
        }
    }
    // Heads are numbered queries first, then keys, then values.
    int kind(int head) const { return head < m.heads ? 0 : head < m.heads + m.kv_heads ? 1 : 2; }
    int own_number(int head) const { return head - (head < m.heads ? 0 : m.heads + (kind(head) - 1) * m.kv_heads); }

    // One head of queries, keys or values: product, norm and rotation, to y [rows][head_dim].
    void project(const Layer& l, int head, float* y) {
        const int own = own_number(head);
        const Linear& w = kind(head) == 0 ? l.q : kind(head) == 1 ? l.k : l.v;
        const float* norm = kind(head) == 0 ? l.q_norm : kind(head) == 1 ? l.k_norm : nullptr;
        product<false>(w, input, own * D, D, y - own * D, D, block_of(w, (own + threads) * D));
        for (int row = 0; row < rows; row++, y += D) {
            if (norm) {
                const float inverse = inverse_rms(y, D, m.epsilon);
                for (int i = 0; i < D; i += BLOCK) at(y + i) = at(y + i) * inverse * at(norm + i);
            }
            const int64_t angle = positions[row] * (D / 2);
            if (kind(head) != 2) rotate(y, m.cos + angle, m.sin + angle, D / 2);
        }
    }
    void keep(const Layer& l, int head, const float* y) {  // keys and values: in the pool
        void* pool = kind(head) == 1 ? l.keys : l.values;
        for (int row = 0; row < rows && kind(head) != 0; row++, y += D)
            pool_write(m, pool, (slots[row] * m.kv_heads + own_number(head)) * D, y);
    }
    // Positions [first, second) of a tile that a row attends to.
    std::pair<int, int> span(const Layer& l, int row, int number) const {
        const int64_t seen = l.window ? std::max<int64_t>(0, lengths[row] - l.window) : 0;
        const int64_t start = std::max(seen, (int64_t)number * TILE);
        return {(int)start, (int)std::max(start, std::min<int64_t>(lengths[row], (int64_t)(number + 1) * TILE))};
    }
    // All queries of one run of rows over one tile of their context. Tiles stand at fixed positions, so that what they
    // add up to does not depend on the batch. `Width` is head_dim where it is known when compiling, or 0. Written to
    // `out`, [rows of the run, `stride` apart][heads][head_dim + 16].
    template <int Width> void attend(const Layer& l, int run, int number, float* out, size_t stride) {
        const int D = Width ? Width : m.head_dim, size = m.kv_bfloat16 ? 2 : 4;
        const auto out_of = [&](int row, int head) {
            return out + (row - starts[run]) * stride + (size_t)head * (D + BLOCK);
        };
        int first = INT32_MAX, end = 0;
        for (int row = starts[run]; row < starts[run + 1]; row++) {
            const auto [from, to] = span(l, row, number);
            if (from < to) first = std::min(first, from), end = std::max(end, to);
            for (int head = 0; head < m.heads; head++) out_of(row, head)[D + 1] = 0;
        }
        if (first >= end) return;
        int64_t where[TILE];
        const int32_t* pages_of = table.data() + (size_t)longest_of(run) * pages;
        for (int p = first, page = p / m.page_size, offset = p % m.page_size; p < end; p++) {
            where[p - first] = ((int64_t)pages_of[page] * m.page_size + offset) * m.kv_heads * D;
            if (++offset == m.page_size) offset = 0, page++;
        }
        float tile[TILE * (Width ? Width : WIDEST)], weights[QUERIES * TILE];
        const int parts = (starts[run + 1] - starts[run]) * group;
        for (int kv = 0; kv < m.kv_heads; kv++) {
            // While the keys are worked on, the values are asked for, and then the next head's keys.
            const Wanted values{(const char*)l.values, where, end - first, size, D * size};
            const Wanted keys{kv + 1 < m.kv_heads ? (const char*)l.keys : nullptr, where, end - first, size, D * size};
            auto each_query = [&](auto work) {
                for (int part = 0; part < parts; part++) {
                    const int row = starts[run] + part / group, head = kv * group + part % group;
                    const auto [from, to] = span(l, row, number);
                    const float* keys_or_values = tile + (size_t)(from - first) * D;
                    if (from < to) work(part, keys_or_values, to - from, head_at(head, row), out_of(row, head));
                }
            };
            pool_read(l.keys, m.kv_bfloat16, where, end - first, D, tile);
            each_query([&](int part, const float* rows, int count, const float* query, float* out) {
                values.fetch(TILE * part / parts, TILE * (part + 1) / parts);
                score(query, rows, count, D, m.scaling, weights + part * TILE, out + D);
            });
            pool_read(l.values, m.kv_bfloat16, where, end - first, D, tile);
            for (int t = 0; t < end - first; t++) where[t] += D;
            each_query([&](int part, const float* rows, int count, const float*, float* out) {
                keys.fetch(TILE * part / parts, TILE * (part + 1) / parts);
                int i = 0;
                for (; i + 4 * BLOCK <= D; i += 4 * BLOCK) mix<4>(weights + part * TILE, rows + i, count, D, out + i);
                for (; i < D; i += BLOCK) mix<1>(weights + part * TILE, rows + i, count, D, out + i);
            });
        }
    }
    int longest_of(int run) const {
        const auto begin = lengths.begin();
        return (int)(std::max_element(begin + starts[run], begin + starts[run + 1]) - begin);
    }
    void gather(int row, Rows& to, int place, float* joined) {  // joins the tiles of each head
        const int used = (int)((lengths[row] + TILE - 1) / TILE);
        float* y = joined;
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
        for (int g = 0; g < m.heads * D / GROUP; g++) to.put(place, g, joined + g * GROUP);
    }
    // silu(gate) * up for one group of inner outputs.
    void activate(const Layer& l, int g, float* gate, Rows& to, int group) {
        const int first = g * GROUP;
        float *up = gate + (size_t)rows * GROUP, y[GROUP];
        product<false>(l.gate, input, first, GROUP, gate - first, GROUP, block_of(l.up, first));
        product<false>(l.up, input, first, GROUP, up - first, GROUP, block_of(l.gate, first + threads * GROUP));
        for (int row = 0; row < rows; row++, gate += GROUP, up += GROUP) {
            for (int i = 0; i < GROUP; i += BLOCK)
                at(y + i) = at(gate + i) / (1.0f + exponential(-at(gate + i))) * at(up + i);
            to.put(row, group, y);
        }
    }
    void walk(Seat& seat) override {
        const bool leads = seat.leads;  // the leader writes where results belong, helpers to their seat
        Walk walk{*this, seat};
        float* own = room_of(seat);
        // By panels: two threads in one cache line cost more than they save.
        auto each_row = [&](int count, Rows& to, auto work) {
            auto compute = [&](int panel) {
                const int start = panel * PANEL;
                if (!leads) seat.rows.shape(std::min(count, PANEL), to.groups * GROUP);
                for (int row = start; row < Rows::end(panel, count); row++)
                    work(row, leads ? to : seat.rows, leads ? row : row - start);
            };
            if (count <= PANEL) return walk.alone([&] { count ? compute(0) : void(); });
            walk.stage(Rows::panels(count), compute, [&](int panel) {
                if (!leads) to.copy(seat.rows, 0, to.place(panel * PANEL, 0), (size_t)to.width * to.groups);
            });
        };
        auto add = [&](const Linear& w, const Rows& from) {  // to the residual stream
            auto compute = [&](int c) {
                const uint8_t* after = block_of(w, (c + threads) * CUT);
                if (leads) product<true>(w, from, c * CUT, CUT, x.at(0), m.hidden, after);
                else product<false>(w, from, c * CUT, CUT, own - c * CUT, CUT, after);
            };
            walk.stage((m.hidden + CUT - 1) / CUT, compute, [&](int c) {
                const int count = std::min(CUT, m.hidden - c * CUT);
                for (int row = 0; row < rows && !leads; row++)
                    for (int i = 0; i < count; i++) x.at((size_t)row * m.hidden + c * CUT)[i] += own[row * CUT + i];
            });
        };
        for (int i = 0; i < m.layer_count; i++) {
            const Layer& l = m.layers[i];
            each_row(rows, input, [&](int row, Rows& to, int place) { normalise(row, l.attention_norm, to, place); });
            walk.stage(m.heads + 2 * m.kv_heads, [&](int head) { project(l, head, leads ? head_at(head, 0) : own); },
                [&](int head) {
                    if (!leads) std::copy(own, own + (size_t)rows * D, head_at(head, 0));
                    keep(l, head, head_at(head, 0));
                });
            const size_t width = (size_t)m.heads * (D + BLOCK);
            auto compute = [&](int item) {
                const int run = item / tiles, number = item % tiles;
                float* out = leads ? partial_at(starts[run], number, 0) : own;
                const size_t stride = leads ? tiles * width : width;
                if (D == 64) attend<64>(l, run, number, out, stride);
                else if (D == 128) attend<128>(l, run, number, out, stride);
                else attend<0>(l, run, number, out, stride);
            };
            walk.stage(((int)starts.size() - 1) * tiles, compute, [&](int item) {
                const int start = starts[item / tiles];
                for (int row = start; row < starts[item / tiles + 1] && !leads; row++)
                    std::copy_n(own + (row - start) * width, width, partial_at(row, item % tiles, 0));
            });
            each_row(rows, context, [&](int row, Rows& to, int place) { gather(row, to, place, own); });
            add(l.o, context);
            each_row(rows, input, [&](int row, Rows& to, int place) { normalise(row, l.mlp_norm, to, place); });
            auto group_of = [&](int g) {
                if (!leads) seat.rows.shape(rows, GROUP);
                activate(l, g, own, leads ? inner : seat.rows, leads ? g : 0);
            };
            walk.stage(m.inner / GROUP, group_of, [&](int g) {
                for (int row = 0; row < rows && !leads; row += PANEL)
                    inner.copy(seat.rows, seat.rows.place(row, 0), inner.place(row, g), inner.width);
            });
            add(l.down, inner);
        }
        each_row(outputs, last, [&](int i, Rows& to, int place) { normalise((int)wanted[i], m.norm, to, place); });
        const int64_t vocabulary = m.head.n;
        auto compute = [&](int c) {
            const uint8_t* after = block_of(m.head, (c + threads) * CUT);
            if (leads) product<false>(m.head, last, c * CUT, CUT, logits, vocabulary, after);
            else product<false>(m.head, last, c * CUT, CUT, own - c * CUT, CUT, after);
        };
        walk.stage((m.head.n + CUT - 1) / CUT, compute, [&](int c) {
            const int count = std::min(CUT, m.head.n - c * CUT);
            for (int i = 0; i < outputs && !leads; i++)
                std::copy_n(own + i * CUT, count, logits + i * vocabulary + c * CUT);
        });
    }
    float* room_of(Seat& seat) const {  // for the largest of its chunks
        const size_t heads = (size_t)m.heads * (D + BLOCK) * RUN;
        seat.floats.need(std::max({heads, (size_t)rows * std::max({CUT, D, 2 * GROUP}), (size_t)outputs * CUT}));
        return seat.floats.at(0);
    }
};
