// Visits the parts of a tree.
#ifndef TESSERA_COMPILER_FRONTEND_PARSE_WALK_H_
#define TESSERA_COMPILER_FRONTEND_PARSE_WALK_H_

#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

// Calls `visit(const Expr&)` on the expressions directly below `e`, in source order where that is known.
template <typename Visit>
void ForEachChild(const Expr& e, Visit visit) {
  auto see = [&visit](const ExprPtr& child) {
    if (child) visit(*child);
  };
  see(e.a);
  see(e.b);
  see(e.c);
  for (const ExprPtr& item : e.items) see(item);
  for (const Keyword& keyword : e.keywords) see(keyword.value);
  for (const ComprehensionClause& clause : e.clauses) {
    see(clause.target);
    see(clause.iterable);
    for (const ExprPtr& condition : clause.conditions) see(condition);
  }
}

// Calls `visit(const Expr&)` on the expressions that belong to `s` itself, not to statements below it. Decorators are
// left out: they are no part of what a function does.
template <typename Visit>
void ForEachExpression(const Stmt& s, Visit visit) {
  auto see = [&visit](const ExprPtr& child) {
    if (child) visit(*child);
  };
  for (const FunctionParameter& parameter : s.parameters) {
    see(parameter.annotation);
    see(parameter.default_value);
  }
  see(s.returns);
  for (const ExprPtr& target : s.targets) see(target);
  see(s.value);
  see(s.extra);
}

// Calls `visit(const Stmt&)` on the statements directly below `s`.
template <typename Visit>
void ForEachStatement(const Stmt& s, Visit visit) {
  for (const StmtPtr& inner : s.body) visit(*inner);
  for (const StmtPtr& inner : s.or_else) visit(*inner);
}

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_PARSE_WALK_H_
