// A derivation as text and as JSON: its moves with what each does to H and M, and of every kernel in the end its closed
// form, thresholds, pseudo-code, what the machine asks of it and gives it.
#pragma once
#include "law/stream.h"
#include "model/page.h"

namespace tilewright {

struct DerivationReport {
  std::string model;
  Machine machine;
  Derivation derivation;
  std::vector<Checked> checks; // one a move
  std::vector<Stream> streams;
  std::vector<KernelPage> kernels;
};
DerivationReport derivation_report(std::string model, const Program& fixed, const Program& free, const Binding& sizes,
                                   const Machine&);

std::string text(const DerivationReport&);
std::string derivation_json(const DerivationReport&, int indent = -1);

} // namespace tilewright
