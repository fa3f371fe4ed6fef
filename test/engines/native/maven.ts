import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runTool } from './run-tool.ts';

const PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';

export interface Artifact {
  readonly group: string;
  readonly artifact: string;
  readonly version: string;
  /** A file other than a jar is fetched without its dependencies. */
  readonly type?: string;
  readonly classifier?: string;
}

/** Copies the artifacts, and the runtime dependencies of the jars among them, into a folder. */
export async function copyArtifacts(
  artifacts: readonly Artifact[],
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const project = await mkdtemp(join(tmpdir(), 'tributary-maven-'));
  try {
    await writeFile(join(project, 'pom.xml'), pomOf(artifacts));
    const args = [`${PLUGIN}:copy-dependencies`, '-DincludeScope=runtime', `-DoutputDirectory=${folder}`];
    const missing = 'install Maven (Debian: apt-get install maven)';
    await runTool('mvn', ['-B', '-q', ...args], { env, cwd: project, missing });
  } finally {
    await rm(project, { recursive: true, force: true });
  }
}

export function pomOf(artifacts: readonly Artifact[]): string {
  return `<project>
<modelVersion>4.0.0</modelVersion>
<groupId>tributary</groupId><artifactId>engine</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
${artifacts.map(dependencyOf).join('\n')}
</dependencies>
</project>
`;
}

function dependencyOf({ group, artifact, version, type, classifier }: Artifact): string {
  const tag = (name: string, value: string | undefined) =>
    value === undefined ? '' : `<${name}>${value}</${name}>`;
  const alone =
    '<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>';
  return [
    '<dependency>',
    tag('groupId', group),
    tag('artifactId', artifact),
    tag('version', version),
    tag('type', type),
    tag('classifier', classifier),
    type === undefined ? '' : alone,
    '</dependency>',
  ].join('');
}
