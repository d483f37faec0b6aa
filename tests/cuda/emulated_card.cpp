// Each test has a fresh emulated card, and fails for every fault that the card found.
#include "cuda_emulator/faults_listener.h"

static const banter::cuda_emulator::ListenToFaults listen;
