import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

const SOURCE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The schemes differ in colours alone: the rules about structure are checked once. */
const RULES = {
  light: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  dark: ['color-contrast', 'link-in-text-block'],
} as const;

/** Expects that axe finds nothing on the page as it is now, in the light and in the dark colour scheme. */
export async function expectAccessible(page: Page): Promise<void> {
  // Evaluated by the debugger, which the content security policy does not concern.
  if (!(await page.evaluate<boolean>(`'axe' in globalThis`))) await page.evaluate(SOURCE);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await schemeShown(page, colorScheme);
    const { violations } = await page.evaluate<AxeResults>(
      `axe.run(document, ${JSON.stringify({ runOnly: RULES[colorScheme] })})`,
    );
    const found = violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 300)} ${failureSummary ?? ''}`),
    );
    expect(found, `axe in the ${colorScheme} scheme`).toEqual([]);
  }
}

/**
 * Waits until the page has a scheme, and its colours have stopped to change. The policy of the page forbids the `eval` of
 * Playwright's own `waitForFunction`.
 */
export async function schemeShown(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await expect.poll(() => page.evaluate<unknown>(SCHEME)).toEqual([colorScheme, 0]);
}

const SCHEME = `[
  document.documentElement.dataset.mantineColorScheme,
  document.getAnimations().filter((each) => each instanceof CSSTransition && each.playState === 'running').length,
]`;
