import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Installation, type InstallationOptions } from './installation.ts';
import { agrees, type Finding } from './verify.ts';

/**
 * Runs a form on an installation with a folder of its own, and tells its findings. Resolves to those that do not hold,
 * none when all is well, and then leaves nothing behind. Otherwise the folder with all logs stays, and `tell` gets its path.
 */
export async function runOnInstallation(
  name: string,
  options: Omit<InstallationOptions, 'folder'>,
  tell: (line: string) => void,
  form: (installation: Installation) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const folder = mkdtempSync(join(tmpdir(), `tributary-${name}-`));
  let wrong: readonly Finding[] | undefined;
  try {
    const installation = await Installation.start({ ...options, folder });
    try {
      const findings = await form(installation);
      tell(`\n${drawFindings(findings)}`);
      wrong = findings.filter((finding) => !agrees(finding));
      return wrong;
    } finally {
      await installation.stop();
    }
  } finally {
    if (wrong?.length === 0) await rm(folder, { recursive: true, force: true });
    else tell(`the logs of all processes are in ${folder}`);
  }
}

/** The findings as a table, each fault below its line. */
function drawFindings(findings: readonly Finding[]): string {
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
