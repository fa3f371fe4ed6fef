export type Inline =
  | { readonly kind: 'text' | 'code'; readonly text: string }
  | { readonly kind: 'link'; readonly text: string; readonly href: string };

export type Block =
  | { readonly kind: 'paragraph'; readonly content: readonly Inline[] }
  | { readonly kind: 'list'; readonly items: readonly (readonly Inline[])[] };

const INLINE = /`([^`]+)`|\[([^\]]+)\]\(([^)\s]+)\)/g;

/** The Markdown used in descriptions of the API: paragraphs, lists, code and links. Anything else is shown as text. */
export function blocksOf(markdown: string): readonly Block[] {
  return markdown
    .split(/\n{2,}/)
    .flatMap((part) => splitLists(part.trim()))
    .filter((block) => block.kind === 'list' || block.content.length > 0);
}

/** A paragraph may end in a list without an empty line between them. */
function splitLists(part: string): readonly Block[] {
  const blocks: Block[] = [];
  let items: (readonly Inline[])[] = [];
  let lines: string[] = [];
  const endParagraph = () => {
    if (lines.length > 0) blocks.push({ kind: 'paragraph', content: inlinesOf(lines.join(' ')) });
    lines = [];
  };
  const endList = () => {
    if (items.length > 0) blocks.push({ kind: 'list', items });
    items = [];
  };
  for (const line of part.split('\n')) {
    if (line.startsWith('- ')) {
      endParagraph();
      items.push(inlinesOf(line.slice(2)));
    } else if (line !== '') {
      endList();
      lines.push(line);
    }
  }
  endParagraph();
  endList();
  return blocks;
}

export function inlinesOf(text: string): readonly Inline[] {
  const inlines: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, label = '', href = ''] = match;
    if (match.index > from) inlines.push({ kind: 'text', text: text.slice(from, match.index) });
    if (code !== undefined) inlines.push({ kind: 'code', text: code });
    else if (href.startsWith('https://')) inlines.push({ kind: 'link', text: label, href });
    else inlines.push({ kind: 'text', text: label }); // links within another document stay text
    from = match.index + whole.length;
  }
  if (from < text.length) inlines.push({ kind: 'text', text: text.slice(from) });
  return inlines;
}
