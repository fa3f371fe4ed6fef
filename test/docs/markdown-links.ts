import { githubSlug } from '../../docs/.vitepress/markdown.ts';

/** A link of a document. */
export interface MarkdownLink {
  /** The file that it names, as written; the empty text for a place in the same document. */
  readonly path: string;
  /** Without `#`; the empty text where it names no place. */
  readonly anchor: string;
}

const FENCED = /^( *)(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1\2`*[ \t]*$/gm;
const INLINE_CODE = /(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g;

/** A document without its code. */
export function withoutCode(text: string): string {
  return text.replaceAll(FENCED, '').replaceAll(INLINE_CODE, 'code');
}

const LINK = /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g;
const DEFINITION = /^\[[^\]]+\]:\s*(\S+)/gm;
const ATTRIBUTE = /\s(?:href|src)="([^"]+)"/g;

/** The links and pictures of a document, except those to other hosts. */
export function linksOf(text: string): readonly MarkdownLink[] {
  const prose = withoutCode(text);
  return [LINK, DEFINITION, ATTRIBUTE]
    .flatMap((pattern) => [...prose.matchAll(pattern)].map(([, target = '']) => target))
    .filter((target) => !/^[a-z][a-z+.-]*:/i.test(target))
    .map((target) => {
      const [path = '', anchor = ''] = target.split('#', 2);
      return { path: decodeURI(path), anchor: decodeURI(anchor) };
    });
}

/** The anchors of a document: of its headings as GitHub makes them, and those written as `id` or `name`. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const withoutFences = text.replaceAll(FENCED, '');
  const anchors = new Set(
    [...withoutFences.matchAll(/<[^>]*\s(?:id|name)="([^"]+)"/g)].map(([, id = '']) => id),
  );
  for (const [, heading = ''] of withoutFences.matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = githubSlug(plain(heading));
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** A heading without its marks. */
function plain(heading: string): string {
  return heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '');
}
