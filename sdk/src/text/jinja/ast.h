// The parsed template. Immutable after parsing, so that any number of threads may render it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/operators.h"

namespace banter::text::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Block = std::vector<std::unique_ptr<Stmt>>;

/** Arguments of a call as written: each is positional, named, or unpacked with * or **. */
struct CallArgument {
  enum class How : uint8_t { kPositional, kKeyword, kUnpackList, kUnpackDict };
  How how = How::kPositional;
  std::string name;
  ExprPtr value;
};

/** One step behind a primary expression: .name, [key], [a:b:c], (args), |filter(args), is test(args). */
struct Postfix {
  enum class What : uint8_t { kAttribute, kItem, kSlice, kCall, kFilter, kTest, kTestNot };
  What what = What::kAttribute;
  int line = 0;
  std::string name;
  const NamedFunction* function = nullptr;  // null: there is no filter or test of that name
  std::vector<CallArgument> arguments;
  ExprPtr first, second, third;  // the key, or the bounds of a slice (may be null)
};

/** Chains of one precedence level are one node with many children, so depth follows nesting, not length. */
struct Expr {
  enum class What : uint8_t {
    kConstant,
    kName,
    kList,
    kTuple,
    kDict,         // children: key, value, key, value, …
    kConditional,  // children: condition, then, else (else may be null)
    kOr,
    kAnd,
    kNot,
    kCompare,     // operators[i] stands between children i and i + 1
    kArithmetic,  // likewise, from the left
    kConcat,
    kMinus,
    kPlus,
    kPostfix,  // children[0], then the steps
  };
  What what = What::kConstant;
  int line = 0;
  Value constant;
  int symbol = -1;
  std::vector<ExprPtr> children;
  std::vector<Operator> operators;
  std::vector<Postfix> steps;
};

/** What `set` and `for` assign to. */
struct Target {
  enum class What : uint8_t { kName, kAttribute, kTuple };
  What what = What::kName;
  int symbol = -1;
  std::string attribute;
  std::vector<Target> parts;
};

struct Parameter {
  int symbol = -1;
  std::string name;
  ExprPtr fallback;  // may be null
};

struct Stmt {
  enum class What : uint8_t {
    kText,
    kOutput,
    kIf,   // branches; a branch without condition is `else`
    kFor,  // value = iterable, condition = loop filter, body, otherwise
    kSet,
    kSetBlock,     // value: a kPostfix on the captured text, or null
    kMacro,        // name symbol, parameters, body
    kCallBlock,    // value = the call, parameters and body of the caller
    kFilterBlock,  // value: a kPostfix on the captured text
    kWith,         // targets[i] = values[i], body
    kScope,        // body in a scope of its own (generation blocks)
    kBreak,
    kContinue,
  };
  struct Branch {
    ExprPtr condition;
    Block body;
  };
  What what = What::kText;
  int line = 0;
  TextPtr text;
  ExprPtr value, condition;
  Target target;
  std::vector<Branch> branches;
  Block body, otherwise;
  std::vector<Parameter> parameters;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  std::string name;
  int symbol = -1;
  bool recursive = false;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Program {
  Block body;
  std::vector<std::string> symbols;
  int loop_symbol = -1, caller_symbol = -1, varargs_symbol = -1, kwargs_symbol = -1;
  int find_symbol(std::string_view name) const {
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i] == name) return static_cast<int>(i);
    }
    return -1;
  }
};

struct SyntaxError {
  int line = 0;
  std::string message;
};

/** Parses template text. False with `*error` filled where the text is no template. */
bool parse_program(std::string_view source, Program* program, SyntaxError* error);

/** Filters, tests and global functions by name; null where there is none. */
const NamedFunction* find_filter(std::string_view name);
const NamedFunction* find_test(std::string_view name);
const NamedFunction* find_global(std::string_view name);

}  // namespace banter::text::jinja
