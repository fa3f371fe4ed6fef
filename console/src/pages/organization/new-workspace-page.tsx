import { Page } from '../../shared/page.tsx';

export function NewWorkspacePage() {
  return <Page title="New workspace">{null}</Page>;
}
