import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { styleNonce } from '../style-nonce.ts';

/** A colour of Mantine's palette for each scheme: each has a contrast of 4.5 and more on the background below. */
const inScheme = (light: string, dark: string) =>
  `light-dark(var(--mantine-color-${light}), var(--mantine-color-${dark}))`;

const HIGHLIGHT = HighlightStyle.define([
  { tag: tags.propertyName, color: inScheme('violet-9', 'violet-2') },
  {
    tag: [tags.string, tags.special(tags.string), tags.regexp],
    color: 'light-dark(#06694b, var(--mantine-color-teal-3))',
  },
  { tag: tags.number, color: inScheme('blue-9', 'blue-3') },
  { tag: [tags.bool, tags.null, tags.keyword, tags.self], color: inScheme('grape-9', 'grape-3') },
  { tag: tags.comment, color: inScheme('gray-7', 'dark-1'), fontStyle: 'italic' },
  {
    tag: [tags.definition(tags.variableName), tags.function(tags.variableName)],
    color: inScheme('blue-9', 'blue-2'),
  },
  { tag: tags.invalid, color: inScheme('red-9', 'red-3') },
]);

const LOOK = {
  '&': {
    fontSize: 'var(--mantine-font-size-xs)',
    backgroundColor: inScheme('gray-0', 'dark-8'),
    color: inScheme('gray-9', 'dark-0'),
    border: `1px solid ${inScheme('gray-3', 'dark-4')}`,
    borderRadius: 'var(--mantine-radius-sm)',
  },
  '&.cm-focused': { outline: `2px solid ${inScheme('blue-6', 'blue-5')}`, outlineOffset: '1px' },
  '.cm-content': {
    fontFamily: 'var(--mantine-font-family-monospace)',
    caretColor: inScheme('black', 'white'),
  },
  '.cm-gutters': {
    backgroundColor: inScheme('gray-0', 'dark-8'),
    color: inScheme('gray-7', 'dark-1'),
    border: 'none',
  },
  '.cm-marked': {
    backgroundColor: inScheme('red-0', 'dark-6'),
    boxShadow: `inset 3px 0 ${inScheme('red-8', 'red-5')}`,
  },
  '.cm-marked-warning': {
    backgroundColor: inScheme('yellow-0', 'dark-6'),
    boxShadow: `inset 3px 0 ${inScheme('yellow-8', 'yellow-5')}`,
  },
  '.cm-mark-message': {
    marginInlineStart: '1.5em',
    fontFamily: 'var(--mantine-font-family)',
    fontWeight: '500',
    color: inScheme('red-9', 'red-3'),
  },
  '.cm-mark-message-warning': { color: inScheme('gray-8', 'yellow-3') },
  // Styles of a comparison. The backgrounds are pale, so that the text on them keeps its colours.
  '&.cm-merge-b .cm-changedLine': { backgroundColor: inScheme('teal-0', 'dark-7') },
  '&.cm-merge-b .cm-changedText, &.cm-merge-b .cm-insertedLine': {
    background: inScheme('teal-0', 'dark-7'),
    boxShadow: `inset 0 -1px ${inScheme('teal-7', 'teal-5')}`,
  },
  '&.cm-merge-b .cm-deletedChunk': { backgroundColor: inScheme('red-0', 'dark-7') },
  '&.cm-merge-b .cm-deletedChunk .cm-deletedText': {
    background: inScheme('red-0', 'dark-7'),
    boxShadow: `inset 0 -1px ${inScheme('red-7', 'red-5')}`,
  },
  // Many fonts do not have the characters that CodeMirror uses.
  '.cm-collapsedLines:before, .cm-collapsedLines:after': { content: '"…"' },
  '.cm-foldPlaceholder, .cm-collapsedLines': {
    color: inScheme('gray-8', 'dark-0'),
    background: inScheme('gray-2', 'dark-5'),
    borderColor: 'transparent',
  },
};

/** The look of every editor and every shown text of the console, in both colour schemes. */
export function codeTheme(isDark: boolean): Extension {
  return [
    EditorView.cspNonce.of(styleNonce()),
    EditorView.theme(LOOK, { dark: isDark }),
    syntaxHighlighting(HIGHLIGHT),
  ];
}

/** CSS length of the height from which the text scrolls. */
export function maxHeightOf(length: string): Extension {
  return EditorView.theme({ '&': { maxHeight: length }, '.cm-scroller': { overflow: 'auto' } });
}
