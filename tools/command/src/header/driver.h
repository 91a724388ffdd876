#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is used of the CUDA driver. EPILOGUE_OWN_DRIVER_DECLARATIONS leaves cuda.h out where there is one. */
#if defined(__has_include) && !defined(EPILOGUE_OWN_DRIVER_DECLARATIONS)
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#ifndef EPILOGUE_ALIGNED
#ifdef __cplusplus
#define EPILOGUE_ALIGNED(bytes) alignas(bytes)
#else
#define EPILOGUE_ALIGNED(bytes) _Alignas(bytes)
#endif
#endif

#if !defined(CUDA_VERSION) && !defined(EPILOGUE_DRIVER)
#ifdef __cplusplus
extern "C" {
#endif
typedef int CUresult;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef int CUfunction_attribute;
typedef int CUlaunchAttributeID;
typedef int CUtensorMapDataType;
typedef int CUtensorMapInterleave;
typedef int CUtensorMapSwizzle;
typedef int CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;

typedef struct CUtensorMap_st {
    EPILOGUE_ALIGNED(64) uint64_t opaque[16];
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

/* Common to all headers of this kind. The numbers are the driver's, under one name with and without cuda.h. */
#ifndef EPILOGUE_DRIVER
#define EPILOGUE_DRIVER
#define EPILOGUE_DYNAMIC_SHARED_BYTES ((CUfunction_attribute)8)
#define EPILOGUE_CLUSTER_DIMENSION ((CUlaunchAttributeID)4)
#define EPILOGUE_PROGRAMMATIC_SERIALIZATION ((CUlaunchAttributeID)6)
#ifdef __cplusplus
#define EPILOGUE_STATIC_ASSERT(condition, message) static_assert(condition, message)
#else
#define EPILOGUE_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#endif

/* A tensor map in a kernel's parameter: CUDA 13 aligns its CUtensorMap to more than kernels need. */
typedef struct epilogue_tensor_map {
    EPILOGUE_ALIGNED(64) unsigned char bytes[128];
} epilogue_tensor_map;
#endif
