#include "backend_cuda/context.h"

#include <mutex>
#include <string>
#include <utility>

#include "backend_cuda/device.h"
#include "backend_cuda/memory.h"

namespace banter::cuda {
namespace {

Error unsupported(std::string message) {
  return {BANTER_ERROR_UNSUPPORTED, std::move(message)};
}

// VK_NV_external_compute_queue, as the Vulkan specification describes it.
constexpr int32_t kStructOfQueue = 1000556001, kStructOfQueueData = 1000556002;  // VkStructureType
struct ExternalQueueInfo {                                                       // VkExternalComputeQueueCreateInfoNV
  int32_t type;
  const void* next;
  void* preferred_queue;
};
struct QueueDataParams {  // VkExternalComputeQueueDataParamsNV
  int32_t type;
  const void* next;
  uint32_t device_index;
};
/** What vkGetExternalComputeQueueDataNV may write. The exact size is a property of the physical device, which we are not given:
 *  room for any that is sensible. */
constexpr size_t kQueueDataBytes = size_t{64} << 10;

template <class F>
F* vulkan_function(const banter_cuda_context& context, const char* name) {
  using GetDeviceProcAddr = void (*(void* device, const char* name))();
  auto* const get = reinterpret_cast<GetDeviceProcAddr*>(context.vulkan_get_device_proc_addr);
  return reinterpret_cast<F*>(get(context.handle, name));
}

/** The card that a context of the game's is on. */
Result<int32_t> device_of(void* context) {
  const Result<Driver> driver = load_driver();
  if (!driver) return driver.error();
  const auto refused = [](const Error& why) {
    return unsupported("The CUcontext that banter_cuda_context names cannot be used. " + why.message);
  };
  if (const Result<void> pushed = check_driver(driver->push(static_cast<DriverContext*>(context)), "entering it");
      !pushed) {
    return refused(pushed.error());
  }
  int device = -1;
  const Result<void> asked = check_driver(driver->device_of_current(&device), "asking for its card");
  DriverContext* popped = nullptr;
  const Result<void> left = check_driver(driver->pop(&popped), "leaving it");
  if (!asked || !left) return refused(asked ? left.error() : asked.error());
  return device;
}

Result<void> can_share_graphics(const DeviceChoice& choice, banter_cuda_context_kind kind) {
#if !defined(_WIN32)
  if (kind == BANTER_CUDA_CONTEXT_D3D12_QUEUE) {
    return unsupported("banter_cuda_context names a Direct3D 12 queue, and there is no Direct3D on this system.");
  }
#endif
  const Result<Driver> driver = load_driver();
  if (!driver) return driver.error();
  const bool is_vulkan = kind == BANTER_CUDA_CONTEXT_VULKAN_DEVICE;
  int supported = 0;
  if (driver->can_make_contexts()) {
    const int attribute = is_vulkan ? kVulkanIsSupported : kD3d12IsSupported;
    // An older driver does not know the attribute.
    if (driver->attribute(&supported, attribute, choice.device) != 0) supported = 0;
  }
  if (supported != 0) return {};
  return unsupported(choice.name + " or its driver cannot schedule CUDA with " +
                     (is_vulkan ? "Vulkan (CUDA in graphics); drivers from 580 can."
                                : "Direct3D 12 (CUDA in graphics); drivers from 575 can."));
}

}  // namespace

Result<DeviceChoice> choose_device(int32_t wanted, const banter_cuda_context* context) {
  Result<DeviceChoice> choice = choose_device(wanted);
  if (!choice || context == nullptr) return choice;
  if (context->kind != BANTER_CUDA_CONTEXT_EXISTING) {
    if (const Result<void> can = can_share_graphics(*choice, context->kind); !can) return can.error();
    return choice;
  }
  const Result<int32_t> device = device_of(context->handle);
  if (!device) return device.error();
  if (wanted >= 0 && wanted != *device) {
    return unsupported("The CUcontext that banter_cuda_context names is of graphics card " + std::to_string(*device) +
                       ", but cuda_device is " + std::to_string(wanted) + "; give -1.");
  }
  return choose_device(*device);
}

/** The contexts that are scheduled with a game's rendering, each counted by who has it. */
class SharedContexts {
 public:
  static SharedContexts& instance() {
    static auto& contexts = *new SharedContexts;  // for good: a game's static objects may end engines after ours
    return contexts;
  }

  Result<std::shared_ptr<const Context>> open(int32_t device, const banter_cuda_context& wanted) {
    const auto owner = std::make_shared<Owner>();
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      const bool is_wanted = entry.kind == wanted.kind && entry.handle == wanted.handle &&
                             entry.queue == wanted.vulkan_queue && entry.context->device_ == device;
      if (is_wanted && !entry.context->is_lost_) return owner->join(entry, owner);
    }
    std::unique_ptr<Context> context(new Context(device));
    Result<Driver> driver = load_driver();
    if (!driver) return driver.error();
    context->driver_ = *driver;
    if (Result<void> joined = context->join_graphics(wanted); !joined) return joined.error();
    entries_.push_back({wanted.kind, wanted.handle, wanted.vulkan_queue, std::move(context), 0});
    return owner->join(entries_.back(), owner);
  }

 private:
  struct Entry {
    banter_cuda_context_kind kind;
    void* handle;
    void* queue;
    std::unique_ptr<Context> context;
    int32_t owners;
  };
  struct Owner {
    const Context* context = nullptr;
    ~Owner() {
      if (context != nullptr) instance().release(*context);
    }
    std::shared_ptr<const Context> join(Entry& entry, const std::shared_ptr<Owner>& self) noexcept {
      ++entry.owners;
      context = entry.context.get();
      return {self, context};
    }
  };

  /** The lock is held until the context is gone: whoever opens it again finds the queue free. */
  void release(const Context& context) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](Entry& entry) { return entry.context.get() == &context && --entry.owners == 0; });
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

Result<std::shared_ptr<const Context>> Context::open(const DeviceChoice& choice, const banter_cuda_context* wanted) {
  if (wanted != nullptr && wanted->kind != BANTER_CUDA_CONTEXT_EXISTING) {
    return SharedContexts::instance().open(choice.device, *wanted);
  }
  std::shared_ptr<Context> context(new Context(choice.device));
  if (wanted != nullptr) {
    Result<Driver> driver = load_driver();
    if (!driver) return driver.error();
    context->driver_ = *driver;
    context->handle_ = static_cast<DriverContext*>(wanted->handle);
  } else {
    context->driver_ = find_driver();
  }
  if (Result<void> noted = context->note_id(); !noted) return noted.error();
  return std::shared_ptr<const Context>(std::move(context));
}

Context::~Context() {
  if (is_ours_) static_cast<void>(driver_.destroy(handle_));
  if (external_queue_ != nullptr) destroy_queue_(vulkan_device_, external_queue_, nullptr);
}

Result<void> Context::note_id() {
  if (driver_.id == nullptr) return {};
  if (Result<void> entered = check(enter(), "entering the context"); !entered) return entered;
  const Result<void> asked = check_driver(driver_.id(nullptr, &id_), "asking for the context's number");
  pop();
  return asked;
}

Result<void> Context::create_queue(const banter_cuda_context& wanted) {
  const auto create = vulkan_function<int32_t(void*, const ExternalQueueInfo*, const void*, void**)>(
      wanted, "vkCreateExternalComputeQueueNV");
  const auto get_data =
      vulkan_function<void(void*, QueueDataParams*, void*)>(wanted, "vkGetExternalComputeQueueDataNV");
  destroy_queue_ = vulkan_function<void(void*, void*, const void*)>(wanted, "vkDestroyExternalComputeQueueNV");
  if (create == nullptr || get_data == nullptr || destroy_queue_ == nullptr) {
    return unsupported(
        "The VkDevice lacks VK_NV_external_compute_queue; create it with this extension and with one reserved external "
        "queue.");
  }
  vulkan_device_ = wanted.handle;
  const ExternalQueueInfo info = {kStructOfQueue, nullptr, wanted.vulkan_queue};
  void* queue = nullptr;
  if (const int32_t status = create(wanted.handle, &info, nullptr, &queue); status != 0 || queue == nullptr) {
    return unsupported("The VkDevice gives no external compute queue (VkResult " + std::to_string(status) +
                       "); was one reserved when it was created?");
  }
  external_queue_ = queue;
  queue_data_.resize(kQueueDataBytes);
  QueueDataParams params = {kStructOfQueueData, nullptr, 0};
  get_data(queue, &params, queue_data_.data());
  return {};
}

Result<void> Context::join_graphics(const banter_cuda_context& wanted) {
  if (driver_.limit_of_current == nullptr || driver_.create == nullptr || driver_.destroy == nullptr) {
    return unsupported("The NVIDIA driver is too old to compute beside the game's rendering; update it.");
  }
  GraphicsParams graphics = {kQueueOfD3d12, wanted.handle};
  if (wanted.kind == BANTER_CUDA_CONTEXT_VULKAN_DEVICE) {
    if (Result<void> made = create_queue(wanted); !made) return made;
    graphics = {kBlobOfVulkan, queue_data_.data()};
  }
  ContextParams params = {nullptr, 0, &graphics};
  if (const Result<void> made =
          check_driver(driver_.create(&handle_, &params, 0, device_), "joining the game's rendering");
      !made) {
    handle_ = nullptr;
    return unsupported(made.error().message +
                       " Does cuda_device name the card that renders, and is this the process's only such context?");
  }
  is_ours_ = true;
  const Result<void> suits = inspect();
  DriverContext* popped = nullptr;  // creating it pushed it
  const Result<void> left = check_driver(driver_.pop(&popped), "leaving the new context");
  return suits ? left : suits;
}

/** Whether the new context, which is current, is what was asked for and lets our kernels run. */
Result<void> Context::inspect() const {
  size_t is_in_graphics = 0, shared = 0;
  if (Result<void> asked =
          check_driver(driver_.limit_of_current(&is_in_graphics, kLimitIsInGraphics), "asking for limits");
      !asked) {
    return asked;
  }
  if (Result<void> asked = check_driver(driver_.limit_of_current(&shared, kLimitOfSharedMemory), "asking for limits");
      !asked) {
    return asked;
  }
  if (is_in_graphics == 0)
    return unsupported("The driver made a context that is not scheduled with the game's rendering.");
  if (shared < kSharedLimit) {
    return unsupported("Beside the game's rendering a block may have " + std::to_string(shared) +
                       " bytes of shared memory only; " + std::to_string(kSharedLimit) + " are needed.");
  }
  return {};
}

cudaError_t Context::enter() const noexcept {
  return handle_ == nullptr ? cudaSetDevice(device_) : static_cast<cudaError_t>(driver_.push(handle_));
}

/** Into the context that was opened, not into one that has got its handle, or that took the place of an ended primary one. */
cudaError_t Context::push() const noexcept {
  if (is_lost_) return cudaErrorContextIsDestroyed;
  const cudaError_t entered = enter();
  if (entered != cudaSuccess) {
    if (handle_ != nullptr) is_lost_ = true;
    return entered;
  }
  if (id_ == 0) return cudaSuccess;
  unsigned long long id = 0;
  auto status = static_cast<cudaError_t>(driver_.id(nullptr, &id));
  if (status == cudaSuccess && id != id_) status = cudaErrorContextIsDestroyed;
  // An ended one may be pushed all the same, and only this call knows it.
  if (status == cudaErrorContextIsDestroyed || status == cudaErrorDeviceUninitialized) is_lost_ = true;
  if (status != cudaSuccess) pop();
  return status;
}

void Context::pop() const noexcept {
  DriverContext* popped = nullptr;
  if (handle_ != nullptr) static_cast<void>(driver_.pop(&popped));
}

Current::Current(const Context& context) noexcept : context_(context), status_(context.push()) {
  changed_mode_ = status_ == cudaSuccess && cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
}

Current::~Current() {
  if (changed_mode_) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  if (status_ == cudaSuccess) context_.pop();
}

Error Current::error() const {
  if (context_.is_lost_) return check(status_, "entering the CUDA context, which must outlive the engine,").error();
  return check(status_, "choosing the graphics card").error();
}

}  // namespace banter::cuda
