"""The stand-ins as real C++ sees them: classes declared as in CANN's headers, compiled by g++, linked with a shim."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("elftools")

from swapconf.dryrun.shim.c_source import c_source
from swapconf.dryrun.shim.compiler import compile_shim
from swapconf.dryrun.shim.elf import ElfMachine, read_library
from swapconf.dryrun.shim.plan import Plan, StandIn
from swapconf.dryrun.shim.symbols import behaviour, may_define

CXX = shutil.which("g++") or ""
pytestmark = pytest.mark.skipif(not CXX, reason="needs g++")

PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ge {
class AscendString {
 public:
  explicit AscendString(const char *name);
  const char *GetString() const;
 private:
  std::shared_ptr<std::string> name_;
};
class Shape {
 public:
  std::vector<int64_t> GetDims() const;
 private:
  std::shared_ptr<int> impl_;
};
class TensorDesc {
 public:
  TensorDesc();
  Shape GetShape() const;
 private:
  std::shared_ptr<int> impl_;
};
class Operator {
 public:
  explicit Operator(const char *type);
  virtual ~Operator() = default;
  TensorDesc GetOutputDesc(uint32_t index) const;
 private:
  std::shared_ptr<int> impl_;
};
class GNode {
 public:
  std::pair<std::shared_ptr<GNode>, int32_t> GetInDataNodesAndPortIndexs(int32_t index) const;
  std::vector<std::shared_ptr<GNode>> GetInControlNodes() const;
};
class OperatorCreatorRegister {
 public:
  OperatorCreatorRegister(const char *type, const std::function<Operator(const AscendString &)> &creator);
};
class StatusFactory {
 public:
  static StatusFactory *Instance();
  std::map<uint32_t, std::string> descriptions;
};
}  // namespace ge

struct Neighbours {
  unsigned char before = 7;
  ge::OperatorCreatorRegister registered{"Add", nullptr};
  unsigned char after[15] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
};

int main() {
  Neighbours neighbours;
  if (neighbours.before != 7) return 1;
  for (unsigned char byte : neighbours.after) if (byte != 7) return 2;
  ge::TensorDesc desc;
  if (!desc.GetShape().GetDims().empty()) return 3;
  // A derived class, as MindSpore has one for each operator: its constructor sets the vtable that the stand-in cleared.
  struct Add : ge::Operator { Add() : ge::Operator("Add") {} } add;
  ge::TensorDesc output = add.GetOutputDesc(0);
  ge::GNode node;
  auto edge = node.GetInDataNodesAndPortIndexs(0);
  if (edge.first || edge.second || !node.GetInControlNodes().empty()) return 4;
  if (*ge::AscendString("Add").GetString()) return 5;
  if (!ge::StatusFactory::Instance()->descriptions.empty()) return 6;
  // MindSpore 2.10 registers its error codes there when it is loaded, each with a call of its own.
  for (uint32_t code = 0; code < 100; code++) {
    auto &descriptions = ge::StatusFactory::Instance()->descriptions;
    if (descriptions.find(code * 37 % 100) != descriptions.end()) return 7;
    descriptions[code * 37 % 100] = std::to_string(code);
  }
  uint32_t expected = 0;
  for (const auto &description : ge::StatusFactory::Instance()->descriptions) {
    if (description.first != expected++) return 8;
  }
  return expected == 100 ? 0 : 9;
}
"""


def test_objects_are_valid_and_neighbours_untouched(tmp_path: Path) -> None:
    (tmp_path / "program.cc").write_text(PROGRAM)
    # As a library, to see what it needs; then as a program that is linked with the stand-ins for just that.
    probe = tmp_path / "libprobe.so"
    subprocess.run([CXX, "-shared", "-fPIC", tmp_path / "program.cc", "-o", probe], check=True)
    needed = sorted(symbol for symbol in read_library(probe).undefined if "2ge" in symbol and may_define(symbol))
    assert len(needed) == 11, needed
    plan = Plan(
        machine=ElfMachine(os.uname().machine),
        sonames=(),
        stand_ins=tuple(StandIn(symbol=symbol, behaviour=behaviour(symbol)) for symbol in needed),
    )
    (tmp_path / "shim.c").write_text(c_source(plan))
    compile_shim(plan, tmp_path / "shim.c", tmp_path / "libshim.so", os.environ)
    program = tmp_path / "program"
    subprocess.run([CXX, tmp_path / "program.cc", tmp_path / "libshim.so", "-o", program], check=True)
    assert subprocess.run([program]).returncode == 0
