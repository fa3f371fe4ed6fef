import { agrees, type Finding } from './verify.ts';

/** The findings as a table, each fault below its line. */
export function drawFindings(findings: readonly Finding[]): string {
  const lines = findings.flatMap((finding) => {
    const { what, answer, expected, faults } = finding;
    const figures = [answer, expected].map((figure) => figure.toLocaleString('en').padStart(10)).join(' ');
    return [
      `${what.padEnd(46)} ${figures}  ${agrees(finding) ? '✓' : '✗'}`,
      ...faults.map((fault) => `    ${fault}`),
    ];
  });
  return [`${''.padEnd(46)} ${'answer'.padStart(10)} ${'expected'.padStart(10)}`, ...lines].join('\n');
}
