/* STAND-IN for libcuda.so.1, for rehearsals without a GPU: what slipway-preflight calls, and no more. GPUs are those of
 * NVIDIA's stand-in for NVML. Memory is the host's, copies do nothing, kernels cannot be compiled. Names, types and
 * values of results are those of CUDA's driver API (cuda.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define INVALID_DEVICE 101
#define JIT_COMPILER_NOT_FOUND 221

typedef int CUresult;
typedef void *Handle;

static unsigned long long copied;

/* NVIDIA's stand-in is the only one that knows the GPUs. */
extern int nvmlInit_v2(void);
extern int nvmlDeviceGetCount_v2(unsigned *count);
extern int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *device);
extern int nvmlDeviceGetUUID(Handle device, char *uuid, unsigned length);

CUresult cuInit(unsigned flags) { return flags || nvmlInit_v2() ? INVALID_VALUE : SUCCESS; }

CUresult cuDriverGetVersion(int *version) {
  *version = 12040;
  return SUCCESS;
}

CUresult cuDeviceGetCount(int *count) { return nvmlDeviceGetCount_v2((unsigned *)count) ? INVALID_VALUE : SUCCESS; }

CUresult cuDeviceGet(int *device, int ordinal) {
  int count;
  if (cuDeviceGetCount(&count) || ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}

CUresult cuDeviceGetUuid_v2(unsigned char bytes[16], int device) {
  Handle handle;
  char text[96];
  int at = 0;
  if (nvmlDeviceGetHandleByIndex_v2(device, &handle) || nvmlDeviceGetUUID(handle, text, sizeof text))
    return INVALID_DEVICE;
  for (const char *digits = text + strlen("GPU-"); *digits && at < 16; digits += digits[0] == '-' ? 1 : 2) {
    unsigned byte;
    if (*digits != '-' && sscanf(digits, "%2x", &byte) == 1) bytes[at++] = (unsigned char)byte;
  }
  return at == 16 ? SUCCESS : INVALID_VALUE;
}

CUresult cuDeviceGetUuid(unsigned char bytes[16], int device) { return cuDeviceGetUuid_v2(bytes, device); }

CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)attribute, (void)device;
  *value = 0; /* no pools of memory among others */
  return SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(Handle *context, int device) {
  *context = (Handle)(size_t)(device + 1);
  return SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) { return device < 0 ? INVALID_DEVICE : SUCCESS; }
CUresult cuCtxSetCurrent(Handle context) { return (void)context, SUCCESS; }
CUresult cuCtxGetCurrent(Handle *context) { return *context = (Handle)1, SUCCESS; }
CUresult cuCtxSynchronize(void) { return SUCCESS; }

CUresult cuStreamSynchronize(Handle stream) { return (void)stream, SUCCESS; }
CUresult cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) {
  return (void)stream, (void)event, (void)flags, SUCCESS;
}

CUresult cuMemAlloc_v2(void **memory, size_t bytes) { return (*memory = malloc(bytes)) ? SUCCESS : OUT_OF_MEMORY; }
CUresult cuMemFree_v2(void *memory) { return free(memory), SUCCESS; }
CUresult cuMemsetD8Async(void *memory, unsigned char value, size_t count, Handle stream) {
  return (void)memory, (void)value, (void)count, (void)stream, SUCCESS;
}
CUresult cuMemsetD8_v2(void *memory, unsigned char value, size_t count) {
  return cuMemsetD8Async(memory, value, count, NULL);
}
CUresult cuMemcpyDtoDAsync_v2(void *into, void *from, size_t bytes, Handle stream) {
  (void)into, (void)from, (void)stream;
  copied += bytes;
  return SUCCESS;
}

/* An event is the bytes that were copied before it. They take as long as on an H100: read and written at 3,000 GB/s. */
CUresult cuEventCreate(Handle *event, unsigned flags) {
  return (void)flags, (*event = calloc(1, sizeof copied)) ? SUCCESS : OUT_OF_MEMORY;
}
CUresult cuEventDestroy_v2(Handle event) { return free(event), SUCCESS; }
CUresult cuEventRecord(Handle event, Handle stream) {
  return (void)stream, *(unsigned long long *)event = copied, SUCCESS;
}
CUresult cuEventSynchronize(Handle event) { return (void)event, SUCCESS; }
CUresult cuEventElapsedTime_v2(float *milliseconds, Handle start, Handle end) {
  unsigned long long bytes = *(unsigned long long *)end - *(unsigned long long *)start;
  *milliseconds = (float)(2.0 * (double)bytes / 3e12 * 1e3);
  return SUCCESS;
}
CUresult cuEventElapsedTime(float *milliseconds, Handle start, Handle end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

CUresult cuModuleLoadData(Handle *module, const void *image) {
  return (void)module, (void)image, JIT_COMPILER_NOT_FOUND;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == JIT_COMPILER_NOT_FOUND ? "the stand-in has no compiler" : "the stand-in refuses";
  return SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = error == JIT_COMPILER_NOT_FOUND ? "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" : "CUDA_ERROR_UNKNOWN";
  return SUCCESS;
}
