import { fileURLToPath } from 'node:url';
import { transformerStyleToClass } from '@shikijs/transformers';
import { defineConfig } from 'vitepress';
import { codeStylesName, finishSite, withoutInlineCode } from './finish.ts';
import { githubSlug, repositoryLinks, withoutFigureMarks, withoutInlineStyles } from './markdown.ts';
import { readPages, sidebar } from './sidebar.ts';

/** Where the gateway serves the site, with a slash at the end. */
const BASE = '/guide/';
const docs = fileURLToPath(new URL('..', import.meta.url));

/** Colours of code as classes: the content security policy of the site allows no `style` attribute. */
const codeClasses = transformerStyleToClass({ classPrefix: 'code-' });

export default defineConfig({
  base: BASE,
  lang: 'en',
  title: 'Tributary',
  description: 'The documentation of Tributary, a customer-data pipeline.',
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${BASE}icon.svg` }],
    ['link', { rel: 'stylesheet', href: `${BASE}${codeStylesName}` }],
  ],
  outDir: 'dist',
  cleanUrls: true,
  // The metadata of the pages is a file, not an inline script.
  metaChunk: true,
  // Switching the scheme without transitions would take an inline style.
  appearance: { disableTransition: false },
  rewrites: { 'README.md': 'index.md', ':folder(.*)/README.md': ':folder/index.md' },
  markdown: {
    // `<kid>` in a sentence is text, and so is `example.com`.
    html: false,
    linkify: false,
    anchor: { slugify: githubSlug },
    attrs: { disable: true },
    codeTransformers: [codeClasses],
    config: (md) => {
      repositoryLinks(md);
      withoutInlineStyles(md);
      withoutFigureMarks(md);
    },
  },
  themeConfig: {
    logo: '/icon.svg',
    nav: [
      { text: 'Guides', link: '/guides/first-event', activeMatch: '^/guides/' },
      { text: 'Reference', link: '/reference/api', activeMatch: '^/reference/' },
      { text: 'Operations', link: '/operations/', activeMatch: '^/operations/' },
      {
        text: 'Internals',
        link: '/architecture',
        activeMatch: '^/(architecture|threat-model|bench|[a-z]+-api|decisions/)',
      },
    ],
    sidebar: sidebar(readPages(docs)),
    outline: [2, 3],
    search: { provider: 'local' },
  },
  transformHtml: withoutInlineCode(BASE),
  buildEnd: ({ outDir }) => finishSite(outDir, codeClasses.getCSS()),
});
