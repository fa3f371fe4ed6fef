import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const CONSOLE = fileURLToPath(new URL('../../console/', import.meta.url));
const DIST = join(CONSOLE, 'dist');
const MAX_FIRST_PAGE_BYTES = 350 * 1024;

const pages = readdirSync(DIST).filter((file) => file.endsWith('.html'));
const read = (file: string) => readFileSync(join(DIST, file), 'utf8');

/** The scripts and styles that a page loads before it runs. */
function loadedBy(html: string): readonly string[] {
  return [...html.matchAll(/(?:src|href)="\/console\/(assets\/[^"]+)"/g)].map(([, path = '']) => path);
}

describe('the built console', () => {
  it('has a first page of 350 KB at most, compressed', () => {
    const files = loadedBy(read('index.html'));
    expect(files.length).toBeGreaterThan(1);
    const sizes = files.map((file) => [file, statSync(join(DIST, `${file}.gz`)).size] as const);
    const bytes = sizes.reduce((sum, [, size]) => sum + size, 0);
    console.log(`the first page of the console: ${Math.ceil(bytes / 1024)} KiB compressed`);
    expect(bytes, JSON.stringify(sizes)).toBeLessThanOrEqual(MAX_FIRST_PAGE_BYTES);
  });

  it.each(pages)('has no script and no style in its pages: %s', (page) => {
    const html = read(page);
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son\w+=|javascript:/i);
    expect(html).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
  });

  it('has every asset compressed beside it', () => {
    const assets = readdirSync(join(DIST, 'assets'));
    const texts = assets.filter((file) => /\.(?:js|css)$/.test(file));
    expect(texts.filter((file) => !assets.includes(`${file}.gz`))).toEqual([]);
  });
});
