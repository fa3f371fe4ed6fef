import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';

const inScheme = (light: string, dark: string) =>
  `light-dark(var(--mantine-color-${light}), var(--mantine-color-${dark}))`;

const SURFACE = inScheme('white', 'dark-7');
const BORDER = `1px solid ${inScheme('gray-4', 'dark-4')}`;
const TEXT = inScheme('gray-9', 'dark-0');

/** Styles of an editor that a viewer does not need: caret, selection, brackets, faults, search. */
export const EDITING_LOOK: Extension = EditorView.theme({
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: TEXT },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: inScheme('blue-1', 'blue-9'),
  },
  '.cm-activeLine': { backgroundColor: 'light-dark(#1c7ed608, #ffffff0a)' },
  '.cm-activeLineGutter': { backgroundColor: inScheme('gray-2', 'dark-6'), color: TEXT },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: inScheme('teal-1', 'teal-9'), color: 'inherit' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: inScheme('red-1', 'red-9'), color: 'inherit' },
  '.cm-tooltip, .cm-panels': { color: TEXT, backgroundColor: SURFACE, border: BORDER },
  '.cm-panels': { fontFamily: 'var(--mantine-font-family)' },
  '.cm-button, .cm-textfield': {
    color: TEXT,
    backgroundColor: SURFACE,
    backgroundImage: 'none',
    border: BORDER,
  },
  '.cm-diagnostic': { fontFamily: 'var(--mantine-font-family)', whiteSpace: 'pre-wrap' },
});
