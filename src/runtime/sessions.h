// A program whose sizes may be free, and a session for each binding of them that was asked for.
//
//   Sessions m(load_program("bert.onnx", o), o.session);          // batch and sequence are free
//   auto s = m.session(m.bind({{1, 128}, {1, 128}}));          // planned and packed at the first call with these sizes
//   s->run(inputs, outputs);
//
// The last few sessions are kept. All calls may be made from any thread.
#pragma once
#include <list>

#include "runtime/session.h"

namespace tilewright {

class Sessions {
public:
  // Sizes in the options are bound for good.
  Sessions(Program, SessionOptions);

  const Program& program() const { return program_; } // not normalised, sizes not bound

  // The free sizes, from the shapes of the inputs in order; an empty list of shapes binds none. A size that no shape
  // tells keeps its default. Error(input) where shapes do not go together, Error(size) where a size stays unknown.
  Binding bind(const std::vector<std::vector<std::int64_t>>& shapes) const;
  std::vector<std::int64_t> output_dims(std::size_t output, const Binding&) const;

  std::shared_ptr<Session> session(const Binding&);
  std::shared_ptr<Session> session(); // the last one used; else with default sizes

private:
  Program program_;
  SessionOptions options_;
  Binding given_;
  std::mutex making_;
  std::list<std::pair<Binding, std::shared_ptr<Session>>> sessions_; // last used first
};

} // namespace tilewright
