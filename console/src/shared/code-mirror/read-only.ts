import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { foldGutter } from '@codemirror/language';
import { EditorState, type Extension } from '@codemirror/state';
import { Decoration, EditorView, highlightSpecialChars, lineNumbers, WidgetType } from '@codemirror/view';
import type { CodeLanguage, CodeMark } from '../code-view.tsx';
import { codeTheme, maxHeightOf } from './theme.ts';

interface Options {
  readonly language: CodeLanguage;
  /** Names the text for screen readers. */
  readonly label: string;
  readonly maxHeight: string;
  readonly isDark: boolean;
}

/** Room at the right for a button that copies the text. */
const ROOM_FOR_BUTTON = EditorView.theme({ '.cm-content': { paddingInlineEnd: '48px' } });

/** A text that can be read, selected, folded and scrolled by keyboard, and not changed. */
export function readOnlyCode({ language, label, maxHeight, isDark }: Options): Extension {
  return [
    lineNumbers(),
    foldGutter(),
    highlightSpecialChars(),
    EditorView.lineWrapping,
    language === 'json' ? json() : javascript(),
    EditorState.readOnly.of(true),
    // Not editable: no keyboard opens on a phone. Focusable: arrow keys scroll it.
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': label }),
    codeTheme(isDark),
    maxHeightOf(maxHeight),
    ROOM_FOR_BUTTON,
  ];
}

/** Marks lines, each with its message at its end. */
export function markedLines(marks: readonly CodeMark[]): Extension {
  return EditorView.decorations.compute(['doc'], ({ doc }) =>
    Decoration.set(
      marks.flatMap((mark) => {
        const line = doc.line(Math.min(Math.max(mark.line, 1), doc.lines));
        const isWarning = mark.severity === 'warning';
        return [
          Decoration.line({ class: isWarning ? 'cm-marked cm-marked-warning' : 'cm-marked' }).range(
            line.from,
          ),
          Decoration.widget({ widget: new Message(mark.message, isWarning), side: 1 }).range(line.to),
        ];
      }),
      true,
    ),
  );
}

class Message extends WidgetType {
  readonly #text: string;
  readonly #isWarning: boolean;

  constructor(text: string, isWarning: boolean) {
    super();
    this.#text = text;
    this.#isWarning = isWarning;
  }

  override toDOM(): HTMLElement {
    const element = document.createElement('span');
    element.className = this.#isWarning ? 'cm-mark-message cm-mark-message-warning' : 'cm-mark-message';
    element.textContent = this.#text;
    return element;
  }
}
