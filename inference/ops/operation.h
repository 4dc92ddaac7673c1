#pragma once

#include <variant>

#include "inference/ops/activate.h"
#include "inference/ops/add.h"
#include "inference/ops/additive_attention.h"
#include "inference/ops/average.h"
#include "inference/ops/batch_norm.h"
#include "inference/ops/candidate_softmax.h"
#include "inference/ops/csr_dense.h"
#include "inference/ops/csr_max.h"
#include "inference/ops/csr_sum.h"
#include "inference/ops/dense.h"
#include "inference/ops/dot_attention.h"
#include "inference/ops/dropout.h"
#include "inference/ops/head_dot.h"
#include "inference/ops/join.h"
#include "inference/ops/l2_normalize.h"
#include "inference/ops/layer_norm.h"
#include "inference/ops/layout_codes.h"
#include "inference/ops/lookup.h"
#include "inference/ops/multiply.h"
#include "inference/ops/pool.h"
#include "inference/ops/pool_mean.h"
#include "inference/ops/scale.h"
#include "inference/ops/select.h"
#include "inference/ops/standardize.h"
#include "inference/ops/top_nodes.h"
#include "inference/ops/transform.h"

namespace foretime::inference {

/// All operations. Each is a struct with its fields, and in a file of its own: the rule for the width of its result
/// (columns), its kernel (run), what TorchScript calls it (script), and by `fields` its JSON. A new one is added here
/// and in models/torch_operations.cpp, which says how LibTorch computes it in training, or nothing links.
using Operation =
    std::variant<Select, Transform, LayoutCodes, Lookup, Dense, Join, Add, Average, Multiply, Scale, Activate,
                 LayerNorm, BatchNorm, L2Normalize, Standardize, CandidateSoftmax, CsrSum, CsrDense, CsrMax, HeadDot,
                 AdditiveAttention, DotAttention, PoolStates, PoolMean, TopNodes, Dropout>;

}  // namespace foretime::inference
