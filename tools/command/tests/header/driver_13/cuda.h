/* What exported headers use of CUDA 13's cuda.h, with its types: enumerations, and tensor maps at multiples of 128 bytes. */
#ifndef CUDA_VERSION
#define CUDA_VERSION 13000
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define DRIVER_ALIGNED(bytes) alignas(bytes)
#else
#define DRIVER_ALIGNED(bytes) _Alignas(bytes)
#endif
typedef enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 } CUresult;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef enum { MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 } CUfunction_attribute;
typedef enum { CLUSTER_DIMENSION = 4, PROGRAMMATIC_STREAM_SERIALIZATION = 6 } CUlaunchAttributeID;
typedef enum { TYPE_UINT8 = 0, TYPE_BFLOAT16 = 9 } CUtensorMapDataType;
typedef enum { INTERLEAVE_NONE = 0 } CUtensorMapInterleave;
typedef enum { SWIZZLE_NONE = 0, SWIZZLE_128B = 3 } CUtensorMapSwizzle;
typedef enum { PROMOTION_NONE = 0, PROMOTION_256B = 3 } CUtensorMapL2promotion;
typedef enum { FILL_NONE = 0 } CUtensorMapFloatOOBfill;

typedef struct CUtensorMap_st {
    DRIVER_ALIGNED(128) uint64_t opaque[16];
} CUtensorMap;

typedef union CUlaunchAttributeValue_union {
    char pad[64];
    struct {
        unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill);
#ifdef __cplusplus
}
#endif
#endif
