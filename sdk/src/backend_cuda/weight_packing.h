// Packing a file's matrix into the device's panels (device_weight.h), on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/packed_form.h"

namespace banter::cuda {

/** Bytes of a panel on the device, a multiple of 16; `cols` a whole number of the type's blocks. */
size_t device_panel_bytes(ops::FormId form, int64_t cols);

/** Packs rows [32·panel, 32·panel + 32) ∩ [0, rows) of `data` (file layout, rows · cols elements, any alignment) into
 *  the device_panel_bytes() at `out`; rows that are not there become zero. Pure: threads may pack panels side by side. */
void pack_device_panel(formats::TensorType type, int64_t rows, int64_t cols, const std::byte* data, int64_t panel,
                       uint8_t* out);

}  // namespace banter::cuda
