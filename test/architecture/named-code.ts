import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/**
 * A path of the repository in a document, alone or with a declaration in it:
 * `core/log/stage.ts#FlowStage.handle`.
 */
const CODE =
  /`(?<path>\.?(?:core|gateway|processors|connectors|infra|test|docs|dependency-cruiser)[\w./<>*-]*)(?:#(?<name>[\w.]+))?`/g;
/** A link to another document. */
const LINK = /\]\((?<path>[^)#:]+)(?:#[^)]*)?\)/g;
/** A bare name of a type, class or constant. */
const TYPE = /`(?<name>[A-Z]\w+)`/g;

/** Files, declarations and linked documents that the document at `path` refers to and that do not exist. */
export function missingFrom(text: string, path: string): readonly string[] {
  const code = [...text.matchAll(CODE)].filter(({ groups }) => !isThere(groups?.path ?? '', groups?.name));
  const folder = path.slice(0, path.lastIndexOf('/') + 1);
  const links = [...text.matchAll(LINK)].filter(
    ({ groups }) => !existsSync(`${root}${folder}${groups?.path}`),
  );
  return [...code.map(([found]) => found), ...links.map(({ groups }) => groups?.path ?? '')];
}

/** Names of types in `text` without a declaration in any product file. */
export function undeclaredTypes(text: string): readonly string[] {
  const sources = globSync('{core,gateway,processors,connectors,infra}/**/*.ts', { cwd: root }).map((file) =>
    readFileSync(`${root}${file}`, 'utf8'),
  );
  const names = new Set([...text.matchAll(TYPE)].map(({ groups }) => groups?.name ?? ''));
  return [...names].filter((name) => !sources.some((source) => declares(source, name)));
}

function isThere(path: string, name: string | undefined): boolean {
  // A placeholder stands for any name.
  if (/[<*]/.test(path)) return globSync(path.replaceAll(/<[^>]*>/g, '*'), { cwd: root }).length > 0;
  if (!existsSync(`${root}${path}`)) return false;
  if (name === undefined) return true;
  if (!statSync(`${root}${path}`).isFile()) return false;
  const source = readFileSync(`${root}${path}`, 'utf8');
  const [declared = '', member] = name.split('.');
  if (!declares(source, declared)) return false;
  return member === undefined || hasMember(source, declared, member);
}

function declares(source: string, name: string): boolean {
  return new RegExp(`\\b(?:function\\*?|class|interface|type|const|let) ${name}\\b`).test(source);
}

/** A member is at the first level of indentation below the head of its class or interface. */
function hasMember(source: string, owner: string, member: string): boolean {
  const [, body = ''] = source.split(new RegExp(`\\b(?:class|interface) ${owner}\\b`));
  const own = body.split('\n}')[0] ?? '';
  return new RegExp(`^  (?:static |async |get |readonly )*${member}\\??\\s*[(<:=]`, 'm').test(own);
}
