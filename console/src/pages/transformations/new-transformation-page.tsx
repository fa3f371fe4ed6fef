import { Page } from '../../shared/page.tsx';

export function NewTransformationPage() {
  return <Page title="New transformation">{null}</Page>;
}
