import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** The path of Chromium. Without one, the specs are skipped and say so; in CI they fail, as `.ci/browser` installs it. */
export const chromiumPath = findChromium();

function findChromium(): string | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter))
    for (const name of NAMES) if (existsSync(join(folder, name))) return join(folder, name);
  if (process.env.CI !== undefined) throw new Error('Chromium is not on the PATH: .ci/browser installs it');
  console.warn('Chromium is not on the PATH: the tests of the console are skipped');
  return undefined;
}

let browser: Promise<Browser> | undefined;

/** One browser for all specs that this process runs; it ends with the process. */
export function openBrowser(): Promise<Browser> {
  browser ??= chromium.launch({
    executablePath: chromiumPath ?? '',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
  });
  return browser;
}
