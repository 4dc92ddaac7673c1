#pragma once

/// Kernel functors for one step of an optimiser over all parameters. NVRTC compiles them after sparse_kernels.h.
#ifndef __CUDACC_RTC__
#include "models/gpu/sparse_kernels.h"
#endif

namespace foretime::gpu {

/// Describes one of the parameters that are updated together. One array has the gradients of all, one after another;
/// two others have the moments, among those of further parameters.
template <class T>
struct Segment {
  T* parameter;
  long long first, end;  // range of the parameter's gradient in the array of gradients
  long long moments;     // offset of the parameter in the arrays of moments
};

constexpr int kSquareLanes = 128;

/// Computes a part of the sum of a gradient's squares. Item = segment * kSquareLanes + lane.
template <class T>
struct SquareSums {
  const Segment<T>* segments = nullptr;
  const T* gradient = nullptr;  // gradients of all parameters, one after another
  double* out = nullptr;        // [segments, kSquareLanes]

  FORETIME_KERNEL void operator()(int item) const {
    const int segment = item / kSquareLanes;
    double sum = 0;
    for (long long i = segments[segment].first + (item - segment * kSquareLanes); i < segments[segment].end;
         i += kSquareLanes)
      sum = multiply_add(double(gradient[i]), double(gradient[i]), sum);
    out[item] = sum;
  }
};

/// Computes the ℓ2 norm of each gradient. Item = segment.
struct SegmentNorms {
  const double* squares = nullptr;  // [segments, kSquareLanes]
  double* out = nullptr;            // [segments]

  FORETIME_KERNEL void operator()(int item) const {
    double sum = 0;
    for (int lane = 0; lane < kSquareLanes; ++lane) sum += squares[item * kSquareLanes + lane];
    out[item] = square_root(sum);
  }
};

/// Computes the ℓ2 norm of all gradients. Item = 0.
struct GlobalNorm {
  const double* norms = nullptr;  // [segments]
  int segments = 0;
  double* out = nullptr;  // [1]

  FORETIME_KERNEL void operator()(int) const {
    double sum = 0;
    for (int s = 0; s < segments; ++s) sum = multiply_add(norms[s], norms[s], sum);
    *out = square_root(sum);
  }
};

/// Takes a step of Adam or AdamW with clipped gradients, as worker/state/optimizer.cpp. Item = index in `gradient`.
template <class T>
struct AdamStep {
  const Segment<T>* segments = nullptr;  // ascending
  int segment_count = 0;
  const T* gradient = nullptr;  // gradients of all parameters, one after another
  T* first_moments = nullptr;
  T* second_moments = nullptr;
  const double* norms = nullptr;  // [1] global norm, or [segments] if `clips_each`
  bool clips_each = false;
  double clip_norm = 0;  // 0: no clipping
  double learning_rate = 0, weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  double first_correction = 1, second_root = 1;  // 1 - beta1^t, sqrt(1 - beta2^t) at step t
  bool decoupled = true;                         // true: AdamW; false: weight decay is added to the gradient

  FORETIME_KERNEL int segment_of(int item) const {
    int low = 0, high = segment_count;  // [low, high) contains the last segment that begins at or before the item
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      if (segments[middle].first <= item) low = middle;
      else high = middle;
    }
    return low;
  }
  FORETIME_KERNEL void operator()(int item) const {
    const int which = segment_of(item);
    const Segment<T>& segment = segments[which];
    const long long at = item - segment.first, moment = segment.moments + at;
    const double norm = norms[clips_each ? which : 0];
    double g = gradient[item], p = segment.parameter[at];
    if (clip_norm > 0 && norm > clip_norm) g *= clip_norm / norm;
    if (decoupled) p *= 1 - learning_rate * weight_decay;
    else g += weight_decay * p;
    const double m = beta1 * first_moments[moment] + (1 - beta1) * g;
    const double s = beta2 * second_moments[moment] + (1 - beta2) * g * g;
    first_moments[moment] = T(m);
    second_moments[moment] = T(s);
    segment.parameter[at] = T(p - learning_rate / first_correction * m / (square_root(s) / second_root + epsilon));
  }
};

}  // namespace foretime::gpu
