/* Two headers of one epilogue in one program: `small` and `large` are their prefixes. It fills parameters and launches
   nothing, so the driver's functions refuse everything. */
#include "small.h"
#include "large.h"

#include "small.h"

#include <stdio.h>

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    (void)module;
    (void)image;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    (void)function;
    (void)module;
    (void)name;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    (void)function;
    (void)attribute;
    (void)value;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    (void)config;
    (void)function;
    (void)parameters;
    (void)extra;
    return CUDA_ERROR_INVALID_VALUE;
}

int main(void) {
    small_arguments small = {0};
    large_arguments large = {0};
    small_parameter of_small;
    large_parameter of_large;
    small.A = large.A = small.B = large.B = 16;
    printf("%d %d, %d %d\n", SMALL_M, LARGE_M, (int)small_fill(&of_small, &small, 0, 0),
        (int)large_fill(&of_large, &large, 0, 0));
    (void)small_load;
    (void)large_load;
    (void)small_launch;
    (void)large_launch;
    return 0;
}
