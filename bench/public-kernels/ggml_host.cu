// Calls operators of llama.cpp's CUDA backend, one after the other, on tensors of ggml: their host code chooses
// kernels, grids and blocks. What ggml-cuda.cu has besides (devices, memory pools, streams) is here in its simplest
// form. Python names a case, which makes the tensors and their values; the launches are executed by the runtime's
// callback.
#include "acc.cuh"
#include "add-id.cuh"
#include "arange.cuh"
#include "argmax.cuh"
#include "argsort.cuh"
#include "binbcast.cuh"
#include "clamp.cuh"
#include "common.cuh"
#include "concat.cuh"
#include "conv-transpose-1d.cuh"
#include "conv2d-dw.cuh"
#include "conv2d-transpose.cuh"
#include "conv2d.cuh"
#include "count-equal.cuh"
#include "cpy.cuh"
#include "cross-entropy-loss.cuh"
#include "cumsum.cuh"
#include "diag.cuh"
#include "diagmask.cuh"
#include "fill.cuh"
#include "gated_delta_net.cuh"
#include "getrows.cuh"
#include "ggml.h"
#include "gla.cuh"
#include "im2col.cuh"
#include "mean.cuh"
#include "norm.cuh"
#include "opt-step-adamw.cuh"
#include "opt-step-sgd.cuh"
#include "pad.cuh"
#include "pad_reflect_1d.cuh"
#include "pool2d.cuh"
#include "roll.cuh"
#include "rope.cuh"
#include "scale.cuh"
#include "set-rows.cuh"
#include "set.cuh"
#include "softmax.cuh"
#include "solve_tri.cuh"
#include "ssm-conv.cuh"
#include "ssm-scan.cuh"
#include "sum.cuh"
#include "sumrows.cuh"
#include "tri.cuh"
#include "tsembd.cuh"
#include "unary.cuh"
#include "upscale.cuh"
#include "wkv.cuh"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

using T = ggml_tensor *;
using Op = std::function<void(ggml_backend_cuda_context &, T)>;

// What ggml-cuda.cu defines.
void ggml_cuda_error(const char *statement, const char *function, const char *file, int line, const char *message) {
    fprintf(stderr, "%s: %s at %s:%d: %s\n", function, statement, file, line, message);
    exit(4);
}
void ggml_cuda_set_device(int) {}
int ggml_cuda_get_device() { return 0; }
const ggml_cuda_device_info &ggml_cuda_info() {
    static ggml_cuda_device_info info = [] {
        ggml_cuda_device_info i = {};
        i.device_count = i.physical_device_count = 1;
        i.devices[0].cc = 800, i.devices[0].nsm = 4, i.devices[0].smpb = 49152, i.devices[0].smpbo = 166912;
        i.devices[0].warp_size = 32, i.devices[0].total_vram = (size_t)40 << 30;
        return i;
    }();
    return info;
}
struct Pool : ggml_cuda_pool {
    void *alloc(size_t size, size_t *actual) override {
        void *at = nullptr;
        cudaMalloc(&at, size);
        *actual = size;
        return at;
    }
    void free(void *at, size_t) override { cudaFree(at); }
};
std::unique_ptr<ggml_cuda_pool> ggml_backend_cuda_context::new_pool_for_device(int, int) {
    return std::unique_ptr<ggml_cuda_pool>(new Pool);
}
ggml_backend_cuda_context::~ggml_backend_cuda_context() {}

static ggml_context *context;
static std::mt19937 numbers;
static T last;

// tensor makes a tensor with its own memory; values are normal, or whole numbers below a limit.
static T tensor(ggml_type type, std::vector<int64_t> shape) {
    T t = ggml_new_tensor(context, type, (int)shape.size(), shape.data());
    cudaMalloc(&t->data, ggml_nbytes(t));
    return t;
}
static T f32(std::vector<int64_t> shape, float scale = 1, float shift = 0) {
    T t = tensor(GGML_TYPE_F32, shape);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < ggml_nelements(t); i++) ((float *)t->data)[i] = normal(numbers) * scale + shift;
    return t;
}
static T share(std::vector<int64_t> shape) {
    T t = f32(shape);
    for (int64_t i = 0; i < ggml_nelements(t); i++) ((float *)t->data)[i] = 1 / (1 + expf(-((float *)t->data)[i]));
    return t;
}
// trained is a tensor whose values an optimizer changes.
static T trained(std::vector<int64_t> shape) {
    T t = f32(shape);
    ggml_set_param(t);
    return t;
}
static T f16(std::vector<int64_t> shape) {
    T t = tensor(GGML_TYPE_F16, shape);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < ggml_nelements(t); i++) ((ggml_fp16_t *)t->data)[i] = ggml_fp32_to_fp16(normal(numbers));
    return t;
}
static T below(ggml_type type, int limit, std::vector<int64_t> shape) {
    T t = tensor(type, shape);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        if (type == GGML_TYPE_I64) ((int64_t *)t->data)[i] = numbers() % limit;
        else ((int32_t *)t->data)[i] = numbers() % limit;
    }
    return t;
}
// distinct has every number below n once, in some order.
static T distinct(ggml_type type, int n) {
    T t = tensor(type, {n});
    std::vector<int> order(n);
    for (int i = 0; i < n; i++) order[i] = i;
    std::shuffle(order.begin(), order.end(), numbers);
    for (int i = 0; i < n; i++) {
        if (type == GGML_TYPE_I64) ((int64_t *)t->data)[i] = order[i];
        else ((int32_t *)t->data)[i] = order[i];
    }
    return t;
}
static T values(std::vector<float> list) {
    T t = tensor(GGML_TYPE_F32, {(int64_t)list.size()});
    memcpy(t->data, list.data(), list.size() * sizeof(float));
    return t;
}

struct Case {
    std::function<T()> make;
    Op run;
};

static std::map<std::string, Case> &cases() {
    static std::map<std::string, Case> all;
    return all;
}
static void add(const char *name, std::function<T()> make, Op run) { cases()[name] = {make, run}; }

static void add_rows() {
    add("norm", [] { return ggml_norm(context, f32({100, 7, 2}), 1e-5f); }, ggml_cuda_op_norm);
    add("norm_wide", [] { return ggml_norm(context, f32({1100, 3}), 1e-5f); }, ggml_cuda_op_norm);
    add("rms_norm", [] { return ggml_rms_norm(context, f32({100, 7, 2}), 1e-5f); }, ggml_cuda_op_rms_norm);
    add("rms_norm_wide", [] { return ggml_rms_norm(context, f32({1100, 3}), 1e-5f); }, ggml_cuda_op_rms_norm);
    add(
        "rms_norm_back", [] { return ggml_rms_norm_back(context, f32({100, 7}), f32({100, 7}), 1e-5f); },
        ggml_cuda_op_rms_norm_back);
    add(
        "rms_norm_back_wide", [] { return ggml_rms_norm_back(context, f32({1100, 3}), f32({1100, 3}), 1e-5f); },
        ggml_cuda_op_rms_norm_back);
    add("group_norm", [] { return ggml_group_norm(context, f32({8, 9, 12, 2}), 4, 1e-5f); }, ggml_cuda_op_group_norm);
    add(
        "group_norm_wide", [] { return ggml_group_norm(context, f32({20, 20, 12}), 4, 1e-5f); },
        ggml_cuda_op_group_norm);
    add("l2_norm", [] { return ggml_l2_norm(context, f32({100, 7}), 1e-5f); }, ggml_cuda_op_l2_norm);
    add("l2_norm_wide", [] { return ggml_l2_norm(context, f32({1100, 3}), 1e-5f); }, ggml_cuda_op_l2_norm);
    add("sum", [] { return ggml_sum(context, f32({300, 5})); }, ggml_cuda_op_sum);
    add("sum_rows", [] { return ggml_sum_rows(context, f32({300, 5})); }, ggml_cuda_op_sum_rows);
    add("mean", [] { return ggml_mean(context, f32({300, 5})); }, ggml_cuda_op_mean);
    add("cumsum", [] { return ggml_cumsum(context, f32({300, 5})); }, ggml_cuda_op_cumsum);
    add("cumsum_wide", [] { return ggml_cumsum(context, f32({3000, 2})); }, ggml_cuda_op_cumsum);
    add("argmax", [] { return ggml_argmax(context, f32({300, 5})); }, ggml_cuda_argmax);
    add("argsort", [] { return ggml_argsort(context, f32({60, 5}), GGML_SORT_ORDER_ASC); }, ggml_cuda_op_argsort);
    add(
        "argsort_desc", [] { return ggml_argsort(context, f32({300, 3}), GGML_SORT_ORDER_DESC); },
        ggml_cuda_op_argsort);
    add(
        "count_equal",
        [] { return ggml_count_equal(context, below(GGML_TYPE_I32, 3, {700}), below(GGML_TYPE_I32, 3, {700})); },
        ggml_cuda_count_equal);
    add("soft_max", [] { return ggml_soft_max(context, f32({100, 6})); }, ggml_cuda_op_soft_max);
    add(
        "soft_max_mask", [] { return ggml_soft_max_ext(context, f32({64, 6, 2}), f16({64, 6}), 0.3f, 4.0f); },
        ggml_cuda_op_soft_max);
    add(
        "soft_max_back", [] { return ggml_soft_max_ext_back(context, f32({100, 6}), share({100, 6}), 0.5f, 0.0f); },
        ggml_cuda_op_soft_max_back);
    add(
        "cross_entropy", [] { return ggml_cross_entropy_loss(context, f32({100, 6}), share({100, 6})); },
        ggml_cuda_cross_entropy_loss);
    add(
        "cross_entropy_back",
        [] { return ggml_cross_entropy_loss_back(context, values({0.7f}), f32({100, 6}), share({100, 6})); },
        ggml_cuda_cross_entropy_loss_back);
}

static void add_elements() {
    struct {
        const char *name;
        T (*make)(ggml_context *, T);
        void (*run)(ggml_backend_cuda_context &, T);
    } plain[] = {{"abs", ggml_abs, ggml_cuda_op_abs},
                 {"sgn", ggml_sgn, ggml_cuda_op_sgn},
                 {"neg", ggml_neg, ggml_cuda_op_neg},
                 {"step", ggml_step, ggml_cuda_op_step},
                 {"gelu", ggml_gelu, ggml_cuda_op_gelu},
                 {"silu", ggml_silu, ggml_cuda_op_silu},
                 {"gelu_erf", ggml_gelu_erf, ggml_cuda_op_gelu_erf},
                 {"gelu_quick", ggml_gelu_quick, ggml_cuda_op_gelu_quick},
                 {"tanh", ggml_tanh, ggml_cuda_op_tanh},
                 {"relu", ggml_relu, ggml_cuda_op_relu},
                 {"sigmoid", ggml_sigmoid, ggml_cuda_op_sigmoid},
                 {"hardsigmoid", ggml_hardsigmoid, ggml_cuda_op_hardsigmoid},
                 {"exp", ggml_exp, ggml_cuda_op_exp},
                 {"hardswish", ggml_hardswish, ggml_cuda_op_hardswish},
                 {"sqr", ggml_sqr, ggml_cuda_op_sqr},
                 {"sin", ggml_sin, ggml_cuda_op_sin},
                 {"cos", ggml_cos, ggml_cuda_op_cos},
                 {"elu", ggml_elu, ggml_cuda_op_elu},
                 {"expm1", ggml_expm1, ggml_cuda_op_expm1},
                 {"softplus", ggml_softplus, ggml_cuda_op_softplus},
                 {"floor", ggml_floor, ggml_cuda_op_floor},
                 {"ceil", ggml_ceil, ggml_cuda_op_ceil},
                 {"round", ggml_round, ggml_cuda_op_round},
                 {"trunc", ggml_trunc, ggml_cuda_op_trunc},
                 {"reglu", ggml_reglu, ggml_cuda_op_reglu},
                 {"geglu", ggml_geglu, ggml_cuda_op_geglu},
                 {"swiglu", ggml_swiglu, ggml_cuda_op_swiglu},
                 {"geglu_erf", ggml_geglu_erf, ggml_cuda_op_geglu_erf},
                 {"geglu_quick", ggml_geglu_quick, ggml_cuda_op_geglu_quick}};
    for (auto &p : plain) {
        auto make = p.make;
        add(p.name, [make] { return make(context, f32({130, 5})); }, p.run);
    }
    add("sqrt", [] { return ggml_sqrt(context, share({130, 5})); }, ggml_cuda_op_sqrt);
    add("log", [] { return ggml_log(context, share({130, 5})); }, ggml_cuda_op_log);
    add("leaky_relu", [] { return ggml_leaky_relu(context, f32({130, 5}), 0.1f, false); }, ggml_cuda_op_leaky_relu);
    add("silu_back", [] { return ggml_silu_back(context, f32({130, 5}), f32({130, 5})); }, ggml_cuda_op_silu_back);
    add(
        "swiglu_oai", [] { return ggml_swiglu_oai(context, f32({130, 5}), f32({130, 5}), 1.7f, 7.0f); },
        ggml_cuda_op_swiglu_oai);
    add("xielu", [] { return ggml_xielu(context, f32({130, 5}), 0.8f, 0.8f, 0.5f, -1e-6f); }, ggml_cuda_op_xielu);
    add("clamp", [] { return ggml_clamp(context, f32({130, 5}), -0.5f, 0.7f); }, ggml_cuda_op_clamp);
    add("scale", [] { return ggml_scale(context, f32({130, 5}), 1.5f); }, ggml_cuda_op_scale);
    add("fill", [] { return ggml_fill(context, f32({130, 5}), 2.5f); }, ggml_cuda_op_fill);
    add("add", [] { return ggml_add(context, f32({130, 5}), f32({130, 1})); }, ggml_cuda_op_add);
    add("mul", [] { return ggml_mul(context, f32({130, 5}), f32({130, 5})); }, ggml_cuda_op_mul);
    add("repeat", [] { return ggml_repeat(context, f32({30, 2}), f32({60, 4})); }, ggml_cuda_op_repeat);
    add("repeat_back", [] { return ggml_repeat_back(context, f32({60, 4}), f32({30, 2})); }, ggml_cuda_op_repeat_back);
    add("arange", [] { return ggml_arange(context, 1, 300, 2); }, ggml_cuda_op_arange);
    add(
        "timestep", [] { return ggml_timestep_embedding(context, f32({7}, 5), 64, 10000); },
        ggml_cuda_op_timestep_embedding);
    add(
        "adamw",
        [] {
            return ggml_opt_step_adamw(context, trained({700}), f32({700}), f32({700}, 0.1f), share({700}),
                                       values({1e-3f, 0.9f, 0.99f, 1e-8f, 0.1f, 10.0f, 100.0f}));
        },
        ggml_cuda_opt_step_adamw);
    add(
        "sgd", [] { return ggml_opt_step_sgd(context, trained({700}), f32({700}), values({1e-3f, 0.1f})); },
        ggml_cuda_opt_step_sgd);
}

static void add_shapes() {
    for (int dim = 0; dim < 4; dim++) {
        static const char *names[] = {"concat_0", "concat_1", "concat_2", "concat_3"};
        add(
            names[dim], [dim] { return ggml_concat(context, f32({6, 5, 4, 3}), f32({6, 5, 4, 3}), dim); },
            ggml_cuda_op_concat);
    }
    add("pad", [] { return ggml_pad(context, f32({30, 5}), 3, 2, 1, 0); }, ggml_cuda_op_pad);
    add("pad_reflect", [] { return ggml_pad_reflect_1d(context, f32({30, 5}), 3, 2); }, ggml_cuda_op_pad_reflect_1d);
    add("roll", [] { return ggml_roll(context, f32({30, 5, 2}), 3, -2, 1, 0); }, ggml_cuda_op_roll);
    add(
        "upscale_nearest", [] { return ggml_upscale(context, f32({9, 7, 3}), 2, GGML_SCALE_MODE_NEAREST); },
        ggml_cuda_op_upscale);
    add(
        "upscale_bilinear",
        [] { return ggml_interpolate(context, f32({9, 7, 3}), 20, 15, 3, 1, GGML_SCALE_MODE_BILINEAR); },
        ggml_cuda_op_upscale);
    add(
        "upscale_bicubic",
        [] { return ggml_interpolate(context, f32({9, 7, 3}), 20, 15, 3, 1, GGML_SCALE_MODE_BICUBIC); },
        ggml_cuda_op_upscale);
    add(
        "pool_2d_max", [] { return ggml_pool_2d(context, f32({20, 14, 3}), GGML_OP_POOL_MAX, 3, 3, 2, 2, 1, 1); },
        ggml_cuda_op_pool2d);
    add(
        "pool_2d_avg", [] { return ggml_pool_2d(context, f32({20, 14, 3}), GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0); },
        ggml_cuda_op_pool2d);
    add(
        "im2col",
        [] {
            return ggml_im2col(context, f16({3, 3, 4, 5}), f32({12, 10, 4, 2}), 1, 1, 1, 1, 1, 1, true, GGML_TYPE_F16);
        },
        ggml_cuda_op_im2col);
    add(
        "im2col_f32",
        [] {
            return ggml_im2col(context, f32({3, 3, 4, 5}), f32({12, 10, 4, 2}), 2, 1, 0, 1, 1, 2, true, GGML_TYPE_F32);
        },
        ggml_cuda_op_im2col);
    add(
        "im2col_3d",
        [] {
            return ggml_im2col_3d(context, f32({3, 3, 3, 8}), f32({8, 7, 6, 4}), 4, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  GGML_TYPE_F32);
        },
        ggml_cuda_op_im2col_3d);
    add(
        "conv_transpose_1d", [] { return ggml_conv_transpose_1d(context, f32({3, 4, 5}), f32({20, 5}), 2, 0, 1); },
        ggml_cuda_op_conv_transpose_1d);
    add(
        "conv_transpose_2d", [] { return ggml_conv_transpose_2d_p0(context, f16({3, 3, 4, 5}), f32({9, 8, 5}), 2); },
        ggml_cuda_conv_2d_transpose_p0);
    add(
        "conv_2d_dw",
        [] { return ggml_conv_2d_dw_direct(context, f32({3, 3, 1, 6}), f32({12, 10, 6, 2}), 1, 1, 1, 1, 1, 1); },
        ggml_cuda_op_conv2d_dw);
    add(
        "conv_2d",
        [] { return ggml_conv_2d_direct(context, f32({3, 3, 4, 5}), f32({12, 10, 4, 2}), 1, 1, 1, 1, 1, 1); },
        ggml_cuda_op_conv2d);
    add("diag", [] { return ggml_diag(context, f32({20, 1, 3})); }, ggml_cuda_op_diag);
    add("diag_mask_inf", [] { return ggml_diag_mask_inf(context, f32({40, 30}), 5); }, ggml_cuda_op_diag_mask_inf);
    add("tri", [] { return ggml_tri(context, f32({40, 40, 2}), GGML_TRI_TYPE_LOWER_DIAG); }, ggml_cuda_op_tri);
    add("acc", [] { return ggml_acc(context, f32({40, 30}), f32({10, 5}), 160, 4800, 4800, 320); }, ggml_cuda_op_acc);
    add(
        "add_id", [] { return ggml_add_id(context, f32({64, 3, 7}), f32({64, 5}), below(GGML_TYPE_I32, 5, {3, 7})); },
        ggml_cuda_op_add_id);
    add(
        "get_rows", [] { return ggml_get_rows(context, f32({64, 20}), below(GGML_TYPE_I32, 20, {9})); },
        ggml_cuda_op_get_rows);
    add(
        "get_rows_f16", [] { return ggml_get_rows(context, f16({64, 20}), below(GGML_TYPE_I32, 20, {9})); },
        ggml_cuda_op_get_rows);
    add(
        "get_rows_back",
        [] { return ggml_get_rows_back(context, f32({64, 9}), below(GGML_TYPE_I32, 20, {9}), f32({64, 20})); },
        ggml_cuda_op_get_rows_back);
    add(
        "set_rows", [] { return ggml_set_rows(context, f32({64, 20}), f32({64, 20}), distinct(GGML_TYPE_I64, 20)); },
        ggml_cuda_op_set_rows);
    add("cont", [] { return ggml_cont(context, ggml_transpose(context, f32({40, 30}))); }, ggml_cuda_dup);
    struct {
        const char *name;
        ggml_type type;
    } types[] = {{"cpy_f32", GGML_TYPE_F32},   {"cpy_f16", GGML_TYPE_F16},   {"cpy_bf16", GGML_TYPE_BF16},
                 {"cpy_q8_0", GGML_TYPE_Q8_0}, {"cpy_q4_0", GGML_TYPE_Q4_0}, {"cpy_q4_1", GGML_TYPE_Q4_1},
                 {"cpy_q5_0", GGML_TYPE_Q5_0}, {"cpy_q5_1", GGML_TYPE_Q5_1}, {"cpy_iq4_nl", GGML_TYPE_IQ4_NL}};
    for (auto &t : types) {
        auto type = t.type;
        add(
            t.name,
            [type] {
                return ggml_cpy(context, ggml_permute(context, f32({64, 3, 5}), 0, 2, 1, 3), tensor(type, {64, 5, 3}));
            },
            [](ggml_backend_cuda_context &c, T t) { ggml_cuda_cpy(c, t->src[0], t->src[1]); });
    }
}

static void add_sequences() {
    add(
        "rope",
        [] {
            return ggml_rope_ext(context, f32({64, 4, 7}), below(GGML_TYPE_I32, 50, {7}), nullptr, 64, 0, 4096, 10000,
                                 1, 0, 1, 32, 1);
        },
        ggml_cuda_op_rope);
    add(
        "ssm_conv", [] { return ggml_ssm_conv(context, f32({3 + 9, 128, 2}), f32({4, 128})); },
        [](ggml_backend_cuda_context &c, T t) { ggml_cuda_op_ssm_conv(c, t); });
    add(
        "ssm_conv_long", [] { return ggml_ssm_conv(context, f32({3 + 70, 128, 2}), f32({4, 128})); },
        [](ggml_backend_cuda_context &c, T t) { ggml_cuda_op_ssm_conv(c, t); });
    add(
        "ssm_scan",
        [] {
            return ggml_ssm_scan(context, f32({16, 1, 128, 2}), f32({1, 128, 5, 2}), f32({128, 5, 2}),
                                 f32({16, 128}, 0.2f, -1), f32({16, 1, 5, 2}), f32({16, 1, 5, 2}),
                                 distinct(GGML_TYPE_I32, 2), 1);
        },
        ggml_cuda_op_ssm_scan);
    add(
        "ssm_scan_2",
        [] {
            return ggml_ssm_scan(context, f32({128, 64, 2, 2}), f32({64, 2, 5, 2}), f32({2, 5, 2}),
                                 f32({1, 2}, 0.2f, -1), f32({128, 1, 5, 2}), f32({128, 1, 5, 2}),
                                 distinct(GGML_TYPE_I32, 2), 1);
        },
        ggml_cuda_op_ssm_scan);
    add(
        "wkv6",
        [] {
            return ggml_rwkv_wkv6(context, f32({64, 2, 9}), f32({64, 2, 9}), f32({64, 2, 9}), f32({64, 2}),
                                  share({64, 2, 9}), f32({64 * 64 * 2, 1}));
        },
        ggml_cuda_op_rwkv_wkv6);
    add(
        "wkv7",
        [] {
            return ggml_rwkv_wkv7(context, f32({64, 2, 9}, 0.3f), share({64, 2, 9}), f32({64, 2, 9}, 0.3f),
                                  f32({64, 2, 9}), f32({64, 2, 9}, 0.1f), f32({64, 2, 9}, 0.1f), f32({64 * 64 * 2, 1}));
        },
        ggml_cuda_op_rwkv_wkv7);
    add(
        "gla",
        [] {
            return ggml_gated_linear_attn(context, f32({64, 2, 9}), f32({64, 2, 9}), f32({64, 2, 9}), share({64, 2, 9}),
                                          f32({64 * 64 * 2, 1}), 0.125f);
        },
        ggml_cuda_op_gated_linear_attn);
    add(
        "gated_delta_net",
        [] {
            return ggml_gated_delta_net(context, f32({64, 2, 9}, 0.1f), f32({64, 2, 9}, 0.1f), f32({64, 2, 9}),
                                        f32({1, 2, 9}, 0.1f, -1), share({1, 2, 9}), f32({64, 64, 2}), 1);
        },
        ggml_cuda_op_gated_delta_net);
    add(
        "solve_tri",
        [] {
            T a = f32({32, 32}, 0.1f);
            for (int i = 0; i < 32; i++) ((float *)a->data)[33 * i] = 2;
            return ggml_solve_tri(context, a, f32({20, 32}), true, true, false);
        },
        ggml_cuda_op_solve_tri);
}

extern "C" {
// gpuemu_cases are the names of all cases, each with a newline.
const char *gpuemu_cases() {
    static std::string names;
    if (names.empty()) {
        add_rows(), add_elements(), add_shapes(), add_sequences();
        for (auto &c : cases()) names += c.first + "\n";
    }
    return names.c_str();
}
// gpuemu_run makes the tensors of a case and runs its operator.
void gpuemu_run(const char *name) {
    if (context) ggml_free(context);
    context = ggml_init({16 << 20, nullptr, true});
    numbers.seed(7);
    last = cases()[name].make();
    if (last->view_src) last->data = (char *)last->view_src->data + last->view_offs;
    for (T s : last->src)
        if (s && s->view_src) s->data = (char *)s->view_src->data + s->view_offs;
    if (!last->data) cudaMalloc(&last->data, ggml_nbytes(last));
    static ggml_backend_cuda_context *device = new ggml_backend_cuda_context(0);
    cases()[name].run(*device, last);
}
// gpuemu_tensor gives a contiguous float32 tensor of the last case, -1 for the result and i for its source i: data and
// shape.
float *gpuemu_tensor(int which, int64_t *shape) {
    T t = which < 0 ? last : last->src[which];
    if (!t || t->type != GGML_TYPE_F32 || !ggml_is_contiguous(t)) return nullptr;
    memcpy(shape, t->ne, 4 * sizeof(int64_t));
    return (float *)t->data;
}
}
