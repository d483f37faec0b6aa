// Attention: how a step's work is spread over the card, and the kernel that merges what was spread.
//
// Merge kernel. Bytes: read the partials once, 4 · (head_dim + 2) · splits · rows · heads, a fiftieth of the keys and
// values behind them. Bound: latency. Mapping: a warp for each row and head, lanes over dimensions, splits in rising order
// with four of them loaded at a time. Numerics: merge_value(), as a block does it that has all splits of a row.
#include "backend_cuda/attention_tile.h"
#include "backend_cuda/launch.h"

namespace banter::cuda {

namespace {

constexpr int kMergeWarps = 4;
/** Most floats of partial results: 32 MiB, 16 splits of 64 rows of 32 heads of 128 and more. Beyond, there are so many
 *  rows that blocks may as well go over all splits themselves. */
constexpr size_t kPartialLimit = size_t{8} << 20;
/** Blocks that fill any card; with as many, prefill is not spread. */
constexpr int32_t kEnoughBlocks = 256;

__global__ void __launch_bounds__(kWarp* kMergeWarps) merge_kernel(AttentionKernel a) {
  const auto index = static_cast<int32_t>(blockIdx.x);
  if (index >= a.step.counts->tiles) return;
  const AttentionTile tile = a.step.tiles[index];
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t unit = static_cast<int32_t>(blockIdx.y) * kMergeWarps + static_cast<int32_t>(threadIdx.x) / kWarp;
  const int32_t group = a.heads / a.kv_heads;
  const int32_t kv_head = unit % a.kv_heads, r = unit / a.kv_heads;
  if (r >= tile.rows * group) return;
  const TileKeys keys = tile_keys(tile, a.window);
  const int32_t splits = keys.last_split() - keys.first_split() + 1;
  const auto stride = static_cast<size_t>(a.head_dim + kPartialExtra);
  const float* partial = a.partials + partial_index(a, index, 0, kv_head, r) * stride;
  const size_t to_next = (partial_index(a, index, 1, kv_head, r) - partial_index(a, index, 0, kv_head, r)) * stride;

  HeadVector total = {};
  float maximum = -INFINITY, sum = 0;
#pragma unroll 4
  for (int32_t split = 0; split < splits; ++split) {
    HeadVector o;
    load_vector(o, partial, a.head_dim, lane);
    const float2 ml = *reinterpret_cast<const float2*>(partial + a.head_dim);
    partial += to_next;
    const MergeFactors factors = merge_factors(maximum, ml.x);
    maximum = factors.maximum;
    sum = merge_value(factors, sum, ml.y);
#pragma unroll
    for (int i = 0; i < kVectorSteps; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) total.x[i][j] = merge_value(factors, total.x[i][j], o.x[i][j]);
  }
  const float inverse = 1.0f / sum;
#pragma unroll
  for (int i = 0; i < kVectorSteps; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) total.x[i][j] *= inverse;
  if (a.rotation != 0) rotate_for_cache(total, a.rotation, lane);
  store_vector(total, a.out + query_offset(a, tile, kv_head, r), a.head_dim, lane);
}

}  // namespace

size_t attention_partial_floats(int32_t tiles, int32_t heads, int32_t kv_heads, int32_t head_dim, int32_t splits,
                                int32_t tile_rows) {
  if (splits <= 1 || tiles < 1 || kv_heads < 1) return 0;
  const int32_t query_rows = tile_rows * (heads / kv_heads);
  const int32_t row_blocks = (query_rows + 63) / 64;
  if (query_rows > 16 && tiles * kv_heads * row_blocks >= kEnoughBlocks) return 0;
  const size_t floats = static_cast<size_t>(tiles) * static_cast<size_t>(tile_rows) * static_cast<size_t>(heads) *
                        static_cast<size_t>(splits) * static_cast<size_t>(head_dim + kPartialExtra);
  return floats <= kPartialLimit ? floats : 0;
}

cudaError_t attention(const StepView& step, int32_t tiles, const AttentionArgs& args, const DeviceLimits& device,
                      KernelQueue queue) {
  const ops::KvGeometry& g = args.kv.geometry;
  if (!kv_layer_is_served(g) || args.heads < g.kv_heads || args.heads % g.kv_heads != 0 || args.splits < 1 ||
      args.tile_rows < 1 || args.tile_rows > kTileTokens)
    return cudaErrorInvalidValue;
  constexpr float kLog2E = 1.44269504088896341f;
  const bool is_quantised = ops::kv_is_quantised(g.type);
  const bool is_spread = args.partials != nullptr && attention_partial_floats(tiles, args.heads, g.kv_heads, g.head_dim,
                                                                              args.splits, args.tile_rows) > 0;
  AttentionKernel kernel = {};
  kernel.step = step;
  kernel.q = args.q;
  kernel.out = args.out;
  kernel.partials = is_spread ? args.partials : nullptr;
  kernel.heads = args.heads;
  kernel.kv_heads = g.kv_heads;
  kernel.head_dim = g.head_dim;
  kernel.splits = args.splits;
  kernel.tile_rows = args.tile_rows;
  kernel.rotation = is_quantised ? ops::kv_rotation_block(g.head_dim) : 0;
  kernel.window = args.window > 0 && args.window < kNoWindow ? args.window : kNoWindow;
  kernel.score_factor = args.softcap > 0.0f ? args.scale * (2.0f * kLog2E) / args.softcap : args.scale * kLog2E;
  kernel.cap = args.softcap > 0.0f ? args.softcap * kLog2E : 0.0f;
  kernel.has_recent = is_quantised && args.recent.page_stride != 0;
  kernel.kv = kv_layer(args.kv, args.layer);
  if (kernel.has_recent) kernel.recent = kv_layer(args.recent, args.layer);
  const int32_t query_rows = args.tile_rows * (args.heads / g.kv_heads);
  const cudaError_t error = is_quantised ? launch_attention_quantised(kernel, tiles, query_rows, device, queue)
                                         : launch_attention_plain(kernel, tiles, query_rows, device, queue);
  if (error != cudaSuccess || !is_spread) return error;
  const auto units = static_cast<uint32_t>(args.tile_rows * args.heads);
  return launch(merge_kernel,
                {.grid = dim3(static_cast<uint32_t>(tiles), (units + kMergeWarps - 1) / kMergeWarps),
                 .block = dim3(kWarp * kMergeWarps)},
                queue, kernel);
}

}  // namespace banter::cuda
