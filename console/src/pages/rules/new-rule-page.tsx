import { Page } from '../../shared/page.tsx';

export function NewRulePage() {
  return <Page title="New rule">{null}</Page>;
}
