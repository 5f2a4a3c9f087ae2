// Threads that share the work of a call.

// The versions that these functions had before glibc 2.32 and 2.34 moved them: newer ones keep them,
// and what is built there loads with glibc 2.28 too.
#ifdef __GLIBC__
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_detach, pthread_detach@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask, pthread_sigmask@GLIBC_2.2.5");
__asm__(".symver pthread_setaffinity_np, pthread_setaffinity_np@GLIBC_2.3.4");
__asm__(".symver pthread_setname_np, pthread_setname_np@GLIBC_2.12");
#endif

constexpr int64_t LINE = 16;  // floats of a cache line

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Waits until `ready`. When that takes long it lets others have the core: the thread that all wait
// for may want it.
template <class Ready>
void wait_until(const Ready& ready) {
  for (int spins = 0; !ready();)
    if (spins < 1000) spins++, _mm_pause();  // tens of microseconds
    else sched_yield();
}

// A part of a call whose jobs may run in any order; the next one needs them all.
struct Stage {
  alignas(64) std::atomic<int64_t> taken{0};
  alignas(64) std::atomic<int64_t> done{0};
};

// One of the threads of a call, on its way from stage to stage. It takes jobs while there are any
// and waits for those that others took, never for a thread that has not come: one that is woken
// late finds less to do.
struct Member {
  Stage* stage;
  const int64_t number, count;  // of this one; of all that may come
  template <class Work>         // work(first, last) does some jobs
  void share(int64_t jobs, const Work& work) {
    if (count == 1) return work(0, jobs);
    int64_t first = stage->taken.load(std::memory_order_relaxed);
    while (first < jobs) {  // a part of what is left, so that all are done at about the same time
      const int64_t last = first + up(jobs - first, 2 * count) / (2 * count);
      if (!stage->taken.compare_exchange_weak(first, last, std::memory_order_relaxed)) continue;
      work(first, last);
      stage->done.fetch_add(last - first, std::memory_order_release);
      first = stage->taken.load(std::memory_order_relaxed);
    }
    wait_until([&] { return stage->done.load(std::memory_order_acquire) == jobs; });
    stage++;
  }
};

struct Call {
  void (*const work)(const Call&, Member);  // what each thread does
  Stage* const stages;
  const int64_t threads;           // that may take part
  int64_t came = 1;                // so far, with the caller; the pool's mutex guards it
  std::atomic<int64_t> inside{0};  // without the caller
  Call(void (*does)(const Call&, Member), Stage* first, int64_t count)
      : work(does), stages(first), threads(count) {}
};

// Threads that help every caller of this process, first him whom the fewest help.
//
// OpenMP's would do, but a call of theirs waits for all of a team. After a pause Linux often wakes
// a thread on the core of its waker, where it waits for milliseconds while another core is idle
// (6.18, two cores of a KVM guest: 0.7 to 3.4 ms in half of the calls, 0.1 where it may not go
// there).
class Pool {
 public:
  explicit Pool(const cpu_set_t& all) : all_(all) { open_.reserve(64); }

  void run(Call& call) {
    if (call.threads == 1) return call.work(call, {call.stages, 0, 1});
    int64_t wake;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const bool grown = grow(call.threads - 1);
      open_.push_back(&call);
      calls_.fetch_add(1, std::memory_order_release);
      wake = std::min(asleep_, call.threads - 1 - spinning_);
      if ((wake > 0 || grown) && open_.size() == 1) leave_caller_s_core();
    }
    for (; wake > 0; wake--) pthread_cond_signal(&called_);
    call.work(call, {call.stages, 0, call.threads});
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_.erase(std::find(open_.begin(), open_.end(), &call));
    }
    wait_until([&] { return call.inside.load(std::memory_order_acquire) == 0; });
  }

  const cpu_set_t& all() const { return all_; }

 private:
  // Makes threads until there are so many, if the system lets it; tells whether there are more.
  bool grow(int64_t count) {
    const size_t before = threads_.size();
    if (static_cast<int64_t>(before) >= count) return false;
    sigset_t others, own;  // signals are for the program's threads, but for those of a fault
    sigfillset(&others);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&others, fault);
    pthread_sigmask(SIG_SETMASK, &others, &own);
    pthread_t thread;
    const auto start = [](void* own) -> void* { return static_cast<Pool*>(own)->help(), nullptr; };
    while (static_cast<int64_t>(threads_.size()) < count &&
           pthread_create(&thread, nullptr, start, this) == 0) {
      pthread_detach(thread);
      pthread_setname_np(thread, "roberta_hub");
      threads_.push_back(thread);
    }
    pthread_sigmask(SIG_SETMASK, &own, nullptr);
    CPU_ZERO(&cores_);
    return threads_.size() > before;
  }

  void leave_caller_s_core() {
    cpu_set_t cores = all_;
    if (CPU_COUNT(&cores) == 0 && sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    CPU_CLR(sched_getcpu(), &cores);
    if (CPU_COUNT(&cores) == 0 || CPU_EQUAL(&cores, &cores_)) return;
    cores_ = cores;
    for (pthread_t thread : threads_)
      if (pthread_setaffinity_np(thread, sizeof cores, &cores) != 0) CPU_ZERO(&cores_);
  }

  Call* neediest() const {
    Call* found = nullptr;
    for (Call* call : open_)
      if (call->came < call->threads && (!found || call->came < found->came)) found = call;
    return found;
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (Call* const call = neediest()) {
        const Member member{call->stages, call->came++, call->threads};
        call->inside.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        call->work(*call, member);
        call->inside.fetch_sub(1, std::memory_order_release);
        lock.lock();
        continue;
      }
      const int64_t seen = calls_.load(std::memory_order_relaxed);
      spinning_++;
      lock.unlock();  // the next layer is likely to come at once
      for (int spins = 0; spins < 2000 && calls_.load(std::memory_order_relaxed) == seen; spins++)
        _mm_pause();
      lock.lock();
      spinning_--;
      if (calls_.load(std::memory_order_relaxed) != seen) continue;
      asleep_++;
      pthread_cond_wait(&called_, mutex_.native_handle());
      asleep_--;
    }
  }

  std::mutex mutex_;
  // Not C++'s, whose `wait` only the libstdc++ of GCC 12 and later has.
  pthread_cond_t called_ = PTHREAD_COND_INITIALIZER;
  std::vector<Call*> open_;
  std::vector<pthread_t> threads_;
  const cpu_set_t all_;  // where threads may run; where none is in it, those of the caller
  cpu_set_t cores_{};    // of them, where these may, once they were told
  std::atomic<int64_t> calls_{0};  // until now
  int64_t asleep_ = 0, spinning_ = 0;
};

Pool* pool = new Pool({});  // never deleted: its threads run until the process ends
// A child has none of its parent's threads, and gets its own.
const int in_child = pthread_atfork(nullptr, nullptr, [] { pool = new Pool(pool->all()); });
