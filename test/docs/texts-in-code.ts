import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** A part of a text that the code puts in at run time. */
export const PLACEHOLDER = '<…>';

/** The syntax trees of the product's files below some folders. */
export function sources(...folders: readonly string[]): readonly ts.SourceFile[] {
  const files = globSync(
    folders.map((folder) => `${folder}/**/*.ts`),
    { cwd: root, exclude: (path) => path.endsWith('node_modules') },
  );
  return files
    .filter((file) => !/\.(?:spec|fixture|d)\.ts$/.test(file))
    .sort()
    .map((file) =>
      ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.Latest, true),
    );
}

/** All nodes of some files. */
export function* nodesOf(files: readonly ts.SourceFile[]): Generator<ts.Node> {
  for (const file of files) yield* descendants(file);
}

function* descendants(node: ts.Node): Generator<ts.Node> {
  yield node;
  for (const child of childrenOf(node)) yield* descendants(child);
}

function childrenOf(node: ts.Node): readonly ts.Node[] {
  const children: ts.Node[] = [];
  ts.forEachChild(node, (child) => void children.push(child));
  return children;
}

/** The texts that an expression may be, with `PLACEHOLDER` for what is known at run time only; none for other values. */
export function textsOf(expression: ts.Expression): readonly string[] {
  if (ts.isStringLiteralLike(expression)) return [expression.text];
  if (ts.isTemplateExpression(expression))
    return [
      expression.templateSpans.reduce(
        (text, { literal }) => `${text}${PLACEHOLDER}${literal.text}`,
        expression.head.text,
      ),
    ];
  if (ts.isConditionalExpression(expression))
    return [...textsOf(expression.whenTrue), ...textsOf(expression.whenFalse)];
  if (ts.isParenthesizedExpression(expression)) return textsOf(expression.expression);
  if (ts.isBinaryExpression(expression) && ['??', '||'].includes(expression.operatorToken.getText()))
    return [...textsOf(expression.left), ...textsOf(expression.right)];
  return [];
}

/** The texts of all properties and variables with one of these names. */
export function valuesNamed(files: readonly ts.SourceFile[], ...names: readonly string[]): readonly string[] {
  const found: string[] = [];
  for (const node of nodesOf(files)) {
    const isNamed =
      (ts.isPropertyAssignment(node) || ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) &&
      names.includes(node.name.getText());
    if (isNamed && node.initializer !== undefined) found.push(...textsOf(node.initializer));
  }
  return found;
}

/** The texts of the argument at `index` of each `new <name>(...)`. */
export function argumentsOfNew(
  files: readonly ts.SourceFile[],
  name: string,
  index: number,
): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isNewExpression(node) || node.expression.getText() !== name) return [];
    const argument = node.arguments?.[index];
    return argument === undefined ? [] : textsOf(argument);
  });
}

/** The members of a union of texts. */
export function unionMembers(files: readonly ts.SourceFile[], name: string): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isTypeAliasDeclaration(node) || node.name.text !== name || !ts.isUnionTypeNode(node.type))
      return [];
    return node.type.types.flatMap((member) =>
      ts.isLiteralTypeNode(member) && ts.isStringLiteral(member.literal) ? [member.literal.text] : [],
    );
  });
}

/** The messages of warnings and errors in the log: the last argument of `logger.warn`, `logger.error` and `logger.fatal`. */
export function logMessages(files: readonly ts.SourceFile[]): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return [];
    const { expression, name } = node.expression;
    if (!['warn', 'error', 'fatal'].includes(name.text) || !/logger\??$/i.test(expression.getText()))
      return [];
    const last = node.arguments.at(-1);
    return last === undefined ? [] : textsOf(last);
  });
}

/** The second texts of the pairs in tables (arrays or maps of pairs) with one of these names. */
export function pairsIn(files: readonly ts.SourceFile[], ...names: readonly string[]): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isVariableDeclaration(node) || !names.includes(node.name.getText())) return [];
    return [...descendants(node)].flatMap((inner) => {
      if (!ts.isArrayLiteralExpression(inner) || inner.elements.length !== 2) return [];
      const [key, value] = inner.elements;
      return key === undefined || value === undefined || ts.isArrayLiteralExpression(key)
        ? []
        : textsOf(value);
    });
  });
}

/** The texts that functions with one of these names return. */
export function returnsOf(files: readonly ts.SourceFile[], ...names: readonly string[]): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isFunctionDeclaration(node) || !names.includes(node.name?.text ?? '')) return [];
    return [...descendants(node)].flatMap((inner) =>
      ts.isReturnStatement(inner) && inner.expression !== undefined ? textsOf(inner.expression) : [],
    );
  });
}

/** The values of a property of the classes that extend an error. */
export function codesOfErrors(files: readonly ts.SourceFile[]): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isPropertyDeclaration(node) || node.name.getText() !== 'code' || node.initializer === undefined)
      return [];
    return textsOf(node.initializer);
  });
}

/** The messages that classes of these bases hand to their base. */
export function messagesOfClasses(files: readonly ts.SourceFile[], base: RegExp): readonly string[] {
  return [...nodesOf(files)].flatMap((node) => {
    if (!ts.isClassDeclaration(node) || !base.test(node.heritageClauses?.[0]?.getText() ?? '')) return [];
    return [...descendants(node)].flatMap((inner) => {
      if (!ts.isCallExpression(inner) || inner.expression.kind !== ts.SyntaxKind.SuperKeyword) return [];
      const message = inner.arguments[0];
      return message === undefined ? [] : textsOf(message);
    });
  });
}
