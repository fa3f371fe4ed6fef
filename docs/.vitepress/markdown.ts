import { dirname, extname, join } from 'node:path/posix';
import type { MarkdownRenderer } from 'vitepress';

/** The anchor that GitHub gives a heading, so that a link to it works in both places. */
export function githubSlug(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-');
}

/** The description of the API; the gateway serves it outside the site. */
const OPENAPI = 'reference/openapi.json';
const OPENAPI_ADDRESS = '/openapi.json';

/** Where a link of a document leads on the site. */
export type SiteLink =
  | { readonly kind: 'page'; readonly href: string }
  /** Served by the gateway, but no page of the site. */
  | { readonly kind: 'gateway'; readonly href: string }
  /** A file of the repository that the site does not have. */
  | { readonly kind: 'source'; readonly path: string };

/** `page`: the path of the document, relative to `docs/`. */
export function siteLink(href: string, page: string): SiteLink {
  if (/^(?:[a-z]+:|#|\/)/i.test(href)) return { kind: 'page', href };
  const [path = '', hash = ''] = href.split(/(?=#)/, 2);
  const target = join(dirname(page), path);
  if (target === OPENAPI) return { kind: 'gateway', href: OPENAPI_ADDRESS };
  if (target.startsWith('../')) return { kind: 'source', path: target.slice(3) };
  if (!['', '.md'].includes(extname(target))) return { kind: 'source', path: join('docs', target) };
  if (extname(target) === '') return { kind: 'page', href: `${path.replace(/\/$/, '')}/index.md${hash}` };
  return { kind: 'page', href: `${path.replace(/(^|\/)README\.md$/, '$1index.md')}${hash}` };
}

/**
 * Makes the links of the documents, which are written for the repository, work on the site. A link to a file that the site
 * does not have becomes its text, with the path of the file as its title.
 */
export function repositoryLinks(md: MarkdownRenderer): void {
  md.core.ruler.push('repository_links', ({ tokens, env }) => {
    const page: string = env.relativePath ?? '';
    for (const { children } of tokens) {
      // Links do not nest: the next `link_close` belongs to the last `link_open`.
      let isSource = false;
      for (const token of children ?? []) {
        if (token.type === 'link_open') {
          const link = siteLink(String(token.attrGet('href') ?? ''), page);
          isSource = link.kind === 'source';
          if (link.kind === 'source') {
            token.type = 'source_open';
            token.tag = 'span';
            token.attrs = [
              ['class', 'source-file'],
              ['title', link.path],
            ];
          } else {
            token.attrSet('href', link.href);
            // The router of the page leaves links with a target to the browser.
            if (link.kind === 'gateway') token.attrSet('target', '_self');
          }
        } else if (token.type === 'link_close' && isSource) {
          token.type = 'source_close';
          token.tag = 'span';
        }
      }
    }
  });
  const text = md.renderer.rules.text;
  // Vue reads the page that VitePress makes of a document: two braces would begin an expression.
  md.renderer.rules.text = (tokens, index, ...rest) =>
    (text?.(tokens, index, ...rest) ?? '').replaceAll('{{', '&#123;&#123;');
  md.disable('emoji', true);
}

/** Alignment of table columns as classes: the content security policy of the site allows no `style` attribute. */
export function withoutInlineStyles(md: MarkdownRenderer): void {
  md.core.ruler.push('without_inline_styles', ({ tokens }) => {
    for (const token of tokens) {
      const align = /^text-align:(left|center|right)$/.exec(token.attrGet('style') ?? '')?.[1];
      if (align === undefined) continue;
      token.attrs = (token.attrs ?? []).filter(([name]) => name !== 'style');
      token.attrJoin('class', `align-${align}`);
    }
  });
}

/** Takes the marks of figures away, which would be text as all HTML is. */
export function withoutFigureMarks(md: MarkdownRenderer): void {
  md.core.ruler.before('normalize', 'without_figure_marks', (state) => {
    state.src = state.src.replaceAll(/<!--\/?figure[^>]*-->/g, '');
  });
}
