import { readFileSync, writeFileSync } from 'node:fs';
import { DOCUMENTS, documentUrl, figures } from './figures.ts';
import { filled } from './fill.ts';

// `npm run docs:figures` fills the marked spans of README.md and docs/comparison.md.
const known = figures();
for (const path of DOCUMENTS) {
  const url = documentUrl(path);
  const text = readFileSync(url, 'utf8');
  const next = filled(text, known);
  if (next !== text) writeFileSync(url, next);
  process.stdout.write(`${path}: ${next === text ? 'up to date' : 'filled in'}\n`);
}
