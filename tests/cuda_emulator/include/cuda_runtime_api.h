// As the runtime has it: the same interface under a second name.
#pragma once
#include "cuda_runtime.h"
