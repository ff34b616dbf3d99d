// The sub-commands, each in a file of its own. They return the exit code and throw Error.
#pragma once
#include "cli/arguments.h"

namespace tilewright {

int run_command(const RunArguments&);
int plan_command(const PlanArguments&);
int explain_command(const ExplainArguments&);
int derive_command(const DeriveArguments&);
int emit_command(const EmitArguments&);
int verify_command(const VerifyArguments&);
int bench_command(const BenchArguments&);
int cache_command(const CacheArguments&);

} // namespace tilewright
