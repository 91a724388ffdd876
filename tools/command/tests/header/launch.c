/* Launches an exported kernel on a driver that only writes down what it is given. */
#include "layer.h"

#include <stdio.h>

static const char *entry = "";

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    *module = NULL;
    return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    (void)module;
    *function = NULL;
    entry = name;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    (void)function;
    return attribute == 8 && value == LAYER_SHARED_BYTES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
    uint64_t *to = map->opaque;
    memset(map, 0, sizeof *map);
    *to++ = (uint64_t)type;
    *to++ = rank;
    *to++ = (uint64_t)(uintptr_t)address;
    for (int i = 0; i < 3; ++i) *to++ = extents[i];
    for (int i = 0; i < 2; ++i) *to++ = strides[i];
    for (int i = 0; i < 3; ++i) *to++ = box[i];
    *to++ = (uint64_t)swizzle;
    *to++ = (uint64_t)promotion;
    return steps[0] == 1 && steps[1] == 1 && steps[2] == 1 && interleave == 0 && fill == 0 ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    const unsigned char *bytes = (const unsigned char *)parameters[0];
    (void)function;
    if (extra || config->gridDimY != 1 || config->gridDimZ != 1 || config->blockDimY != 1 || config->blockDimZ != 1)
        return CUDA_ERROR_INVALID_VALUE;
    printf("%s grid %u block %u shared %u %u attributes", entry, config->gridDimX, config->blockDimX,
        config->sharedMemBytes, config->numAttrs);
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == 4) printf(" cluster %u", config->attrs[i].value.clusterDim.x);
    printf("\n%zu %zu\n", LAYER_COUNTER_BYTES, LAYER_SCRATCH_BYTES);
    for (size_t i = 0; i < sizeof(layer_parameter); ++i) printf("%02x", bytes[i]);
    printf("\n");
    return CUDA_SUCCESS;
}

int main(void) {
    CUmodule module;
    CUfunction kernel;
    /* Arguments lie where their number says: bias 0, residual 1, d 3, sums 4. */
    layer_arguments arguments = {0};
    arguments.A = 0x100000000u;
    arguments.B = 0x200000000u;
    arguments.bias = 0x1000000000u;
    arguments.residual = 0x1100000000u;
    arguments.scale = 0.375f;
    arguments.d = 0x1300000000u;
    arguments.sums = 0x1400000000u;
    if (layer_load(&module, &kernel, "cubin") != CUDA_SUCCESS) return 1;
    if (layer_launch(kernel, NULL, &arguments, 0x300000000u, 0x400000000u) != CUDA_SUCCESS) return 2;
    arguments.d += 8;
    printf("misaligned: %d\n", (int)layer_launch(kernel, NULL, &arguments, 0, 0));
    return 0;
}
