// What a step is given, as kernels.py lays it out, and the small functions of a layer.
#pragma once
#include "kernels_attention.h"
#include "kernels_int8.h"

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
    const float *embedding, *norm, *cos, *sin;  // [vocabulary, hidden]; [hidden]; tables: [positions, head_dim / 2]
    int32_t layer_count, hidden, heads, kv_heads, head_dim, inner, page_size, kv_bfloat16;
    int64_t vocabulary, positions, slots;  // rows of the embeddings, of the tables, and of each layer's keys
    float epsilon, scaling;
};
struct Batch {
    const int64_t *ids, *positions, *slots, *lengths;  // [rows]
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
