import type { Locator } from 'playwright-core';

/** Replaces the text of a code editor by the keyboard: `fill` makes Chromium try inline styles, which the policy refuses. */
export async function writeInto(editor: Locator, text: string): Promise<void> {
  const { keyboard } = editor.page();
  await editor.focus();
  await keyboard.press('ControlOrMeta+a');
  await keyboard.press('Delete');
  await keyboard.insertText(text);
}
