import { execFile } from 'node:child_process';
import { EngineFailed, EngineMissing } from '../engine.ts';

export interface ToolOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** The package to install when the command is missing. */
  readonly missing?: string;
  /** The user it runs as. Default: this process's user. */
  readonly uid?: number;
  readonly gid?: number;
}

/** Runs a command to its end. Rejects with its output when it fails. */
export function runTool(command: string, args: readonly string[], options: ToolOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error: Error | null, stdout: string, stderr: string) => {
      if (error === null) return resolve();
      if ('code' in error && error.code === 'ENOENT')
        return reject(new EngineMissing(`no ${command} on the PATH: ${options.missing ?? 'install it'}`));
      reject(new EngineFailed(`${command} failed:\n${stdout}${stderr}`, { cause: error }));
    };
    const { env, cwd, uid, gid } = options;
    execFile(command, [...args], { env: { ...env }, cwd, uid, gid, maxBuffer: 64 * 1024 * 1024 }, settle);
  });
}
