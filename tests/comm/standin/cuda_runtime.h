#pragma once

#include <cstddef>

/// What comm/nccl/ uses of CUDA's runtime, over host memory: declarations of our own for tests on machines without a
/// GPU (streams.cpp). A stream is a thread. The real library is documented at
/// https://docs.nvidia.com/cuda/cuda-runtime-api.

struct StandinStream;
struct StandinEvent;
using cudaStream_t = StandinStream*;
using cudaEvent_t = StandinEvent*;

enum cudaError_t { cudaSuccess, cudaErrorNotReady, cudaErrorInvalidValue, cudaErrorInvalidDevice };
constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1;

const char* cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
