import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { schemeShown } from './axe.ts';

const FOLDER = fileURLToPath(new URL('../../../docs/console/', import.meta.url));
const SIZES = [
  { width: 1440, height: 900 },
  { width: 360, height: 740 },
] as const;

/** With `TRIBUTARY_TEST_PICTURES`, writes `docs/console/<name>-<scheme>-<width>.png` in both schemes and both sizes. */
export async function takePictures(page: Page, name: string): Promise<void> {
  if (process.env.TRIBUTARY_TEST_PICTURES === undefined) return;
  for (const colorScheme of ['light', 'dark'] as const)
    for (const size of SIZES) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize(size);
      await schemeShown(page, colorScheme);
      await page.screenshot({
        path: `${FOLDER}${name}-${colorScheme}-${size.width}.png`,
        animations: 'disabled',
      });
    }
  await page.setViewportSize(SIZES[0]);
}
